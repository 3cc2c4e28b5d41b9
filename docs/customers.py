"""Makes the customer table of the tutorial: messy as such tables are, with groups that are known.

`python docs/customers.py customers.csv` writes the same 50,000 rows every time.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

SEED = 29
GROUPS = {
    # Rows, yearly amount, orders a year, share of returns, visits per order, age.
    "regulars": (34_000, 900.0, 12.0, 0.05, 4.0, 46.0),
    "bargain hunters": (13_000, 250.0, 9.0, 0.45, 14.0, 33.0),
    "businesses": (3_000, 14_000.0, 60.0, 0.02, 1.5, 44.0),
}


def customers(seed: int = SEED) -> pd.DataFrame:
    """The table as it would be written to a file, with the group that made each row."""
    rng = np.random.default_rng(seed)
    parts = [_group(name, *how, rng) for name, how in GROUPS.items()]
    table = pd.concat(parts).sample(frac=1.0, random_state=seed).reset_index(drop=True)
    n = len(table)
    amount = table.pop("amount")
    table.insert(0, "customer_id", rng.permutation(n) + 100_001)
    table.insert(1, "joined", _dates("2015-01-01", 3_600, n, rng).strftime("%Y-%m-%d"))
    table.insert(2, "city", rng.choice(["Basel", "Bern", "Chur"], n, p=[0.5, 0.3, 0.2]))
    table.insert(3, "email", [f"c{number}@example.org" for number in rng.integers(10**9, size=n)])
    table["spent_chf"] = [f"{value:,.2f}" for value in amount]
    # The same in another unit, as where two systems were joined.
    table["spent_eur"] = [f"{value:,.2f}" for value in amount * 0.94]
    table["lifetime_points"] = (rng.gamma(4.0, 3e8, n)).round().astype(np.int64)
    table["newsletter"] = rng.random(n) < 0.4
    table["country"] = "CH"
    table["tax_code"] = 7
    table["age"] = table["age"].astype(object).where(rng.random(n) > 0.03, "")
    table["satisfaction"] = table["satisfaction"].astype(object).where(rng.random(n) > 0.6, "n/a")
    return table


def _group(
    name: str, n: int, amount: float, orders: float, returns: float, visits: float, age: float,
    rng: np.random.Generator,
) -> pd.DataFrame:  # fmt: skip
    counts = rng.poisson(orders, n) + 1
    return pd.DataFrame(
        {
            "amount": amount * rng.gamma(6.0, 1.0 / 6.0, n),
            "orders": counts,
            "returned": (rng.beta(40.0 * returns, 40.0 * (1.0 - returns), n)).round(4),
            "visits_per_order": rng.gamma(10.0, visits / 10.0, n).round(2),
            "age": rng.normal(age, 9.0, n).clip(16, 99).round().astype(int),
            "satisfaction": rng.integers(1, 6, n),
            "group": name,
        }
    )


def _dates(first: str, days: int, n: int, rng: np.random.Generator) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(pd.Timestamp(first) + pd.to_timedelta(rng.integers(0, days, n), "D"))


def main(path: str) -> None:
    """Write the table, without the groups, which nobody would know."""
    customers().drop(columns="group").to_csv(path, index=False)


if __name__ == "__main__":
    main(sys.argv[1])
