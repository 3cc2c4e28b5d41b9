"""The report as a person uses it: sorting, one cluster alone, hovering, with keys, on paper."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lwcs
from lwcs.runtime.formatting import shortened
from tests.reporting.browser import opened
from tests.reporting.conftest import HOSTILE


@pytest.fixture(scope="module")
def page_of(browser, report):
    """The report, open; every test leaves it as it was."""
    with opened(browser, report) as found:
        yield found
        assert found.problems == []
        assert found.requests == []


def test_opens_without_problems_and_without_the_network(page_of):
    assert page_of.page.locator("canvas").count() > 0
    assert page_of.problems == []
    assert page_of.requests == []


def coloured_pixels(page, button: str | None = None) -> int:
    """Pixels of the map in the colours of clusters, as it is drawn after a button is pressed."""
    return page.evaluate(
        """async (button) => {
          const plot = Bokeh.documents.map((doc) => doc.roots()[0])
            .find((root) => root.name === "map");
          plot.lod_timeout = 3000;
          if (button) document.querySelector(button).click();
          for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
          const { canvas } = Bokeh.index.find_one(plot).export("png", false);
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          let drawn = 0;
          for (let i = 0; i < data.length; i += 4) {
            const [r, g, b] = data.slice(i, i + 3);
            drawn += data[i + 3] > 60 && Math.max(r, g, b) - Math.min(r, g, b) > 40;
          }
          return drawn;
        }""",
        button,
    )


def test_draws_points_in_the_colours_of_clusters(page_of):
    assert coloured_pixels(page_of.page) > 1_000


def test_many_points_are_drawn_in_part_at_once_and_all_shortly_after(browser, tmp_path):
    """Where the browser draws by itself; with the buttons as while the map is dragged."""
    X = np.random.default_rng(0).normal(size=(9_000, 2))
    lwcs.report(lwcs.CoresetKMeans(3, random_state=0).fit(X), tmp_path / "many.html")
    with opened(browser, tmp_path / "many.html") as found:
        page, every = found.page, coloured_pixels(found.page)
        for button in ("#in", "#reset"):
            at_once = coloured_pixels(page, button)
            page.wait_for_function(
                "() => Bokeh.documents.every((doc) => doc.interactive_duration() < 0)"
            )
            assert 100 < at_once < 0.5 * coloured_pixels(page)
        assert coloured_pixels(page) == every


BACKEND = """() => Bokeh.documents.map((doc) => doc.roots()[0])
  .find((root) => root.name === "map").output_backend"""

# Bokeh draws by itself where its code for WebGL cannot run, and does not say so.
BY_WEBGL = """() => {
  const plot = Bokeh.documents.map((doc) => doc.roots()[0]).find((root) => root.name === "map");
  const shown = plot.renderers.find((each) => each.name === "shown");
  return Boolean(Bokeh.index.find_one(plot).renderer_views.get(shown).glyph.glglyph);
}"""


def test_draws_by_webgl_where_there_is_a_graphics_processor(browser, report):
    with opened(browser, report, graphics=True) as found:
        assert found.page.evaluate(BACKEND) == "webgl"
        assert found.page.evaluate(BY_WEBGL)
        assert coloured_pixels(found.page) > 1_000
        assert found.problems == []


def test_draws_by_itself_where_a_graphics_processor_is_imitated(browser, report):
    with opened(browser, report) as found:
        name = found.page.evaluate(
            """() => {
              const gl = document.createElement("canvas").getContext("webgl");
              const known = gl?.getExtension("WEBGL_debug_renderer_info");
              return known ? gl.getParameter(known.UNMASKED_RENDERER_WEBGL) : "none";
            }"""
        )
        imitated = name == "none" or "SwiftShader" in name or "llvmpipe" in name
        assert found.page.evaluate(BACKEND) == ("canvas" if imitated else "webgl")


def test_names_of_columns_and_the_title_are_text(page_of):
    page = page_of.page
    assert page.title() == HOSTILE[1]
    assert page.locator("h1").inner_text() == HOSTILE[1]
    shown = set(page.locator("#table .telling bdi").all_inner_texts())
    assert shown == set(HOSTILE)
    assert page.locator("main img").count() == 0


def test_sorts_by_number_in_both_directions(page_of):
    page = page_of.page
    rows = page.locator("#table thead button", has_text="Rows")
    falling = page_of.column(1)
    assert falling == sorted(falling, reverse=True)
    assert falling[0] > 10 * falling[-1]
    assert page.locator("#table th[aria-sort=descending]").inner_text().startswith("Rows")
    rows.press("Enter")
    assert page_of.column(1) == falling[::-1]
    assert page.locator("#table th[aria-sort=ascending]").inner_text().startswith("Rows")
    page.locator("#table thead button", has_text="Cluster").click()
    assert page_of.column(0) == list(range(12))


def test_finds_clusters_by_number_and_by_column(page_of):
    page = page_of.page
    page.fill("#find", "7")
    assert page.locator("#table tbody tr:visible").count() == 1
    assert page.locator("#found").inner_text() == "1 found"
    page.fill("#find", "🎉")
    found = page.locator("#table tbody tr:visible")
    assert 0 < found.count() < 12
    assert all("🎉" in text for text in found.all_inner_texts())
    page.fill("#find", "")
    assert page.locator("#table tbody tr:visible").count() == 12


def test_a_click_on_a_cluster_shows_it_alone(page_of):
    page, every = page_of.page, page_of.shown_points()
    page.locator("tr[data-cluster='3'] button.cluster").click()
    own = page_of.shown_points()
    assert 0 < own < every / 4
    assert page.locator("#status").inner_text().startswith("cluster 3 alone")
    assert page.locator("#alone").input_value() == "3"
    assert page.locator("tr.alone").get_attribute("data-cluster") == "3"
    page.click("#all")
    assert page_of.shown_points() == every
    assert page.locator("tr.alone").count() == 0


def test_clusters_are_shown_alone_with_the_keyboard(page_of):
    page, every = page_of.page, page_of.shown_points()
    page.focus("#alone")
    page.keyboard.press("ArrowDown")
    assert page.locator("#alone").input_value() == "0"
    assert 0 < page_of.shown_points() < every
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page_of.shown_points() == every
    button = page.locator(".legend button").nth(5)
    button.focus()
    page.keyboard.press("Space")
    assert button.get_attribute("aria-pressed") == "true"
    assert 0 < page_of.shown_points() < every
    page.focus("#figure-map")
    page.keyboard.press("Escape")
    assert page_of.shown_points() == every


def view(page) -> list[float]:
    return page.evaluate(
        """() => {
          const plot = Bokeh.documents.map((doc) => doc.roots()[0])
            .find((root) => root.name === "map");
          return [plot.x_range.start, plot.x_range.end, plot.y_range.start, plot.y_range.end];
        }"""
    )


def test_the_view_moves_zooms_and_comes_back_with_the_keyboard(page_of):
    page = page_of.page
    first = view(page)
    page.focus("#figure-map")
    page.keyboard.press("ArrowRight")
    moved = view(page)
    assert moved[0] > first[0]
    assert moved[2:] == pytest.approx(first[2:])
    page.keyboard.press("+")
    nearer = view(page)
    assert nearer[1] - nearer[0] == pytest.approx(0.7 * (first[1] - first[0]))
    page.keyboard.press("0")
    assert view(page) == pytest.approx(first)


def test_zooms_to_a_cluster_and_back(page_of):
    page = page_of.page
    first = view(page)
    page.select_option("#alone", "0")
    page.click("#fit")
    found = view(page)
    assert found[1] - found[0] < 0.7 * (first[1] - first[0])
    page.click("#reset")
    page.click("#all")
    assert view(page) == pytest.approx(first)


def point_on_screen(page, place: int) -> dict[str, float]:
    page.locator("#figure-map").scroll_into_view_if_needed()
    return page.evaluate(
        """(i) => {
          const plot = Bokeh.documents.map((doc) => doc.roots()[0])
            .find((root) => root.name === "map");
          const { data } = plot.document.get_model_by_name("points");
          const { frame } = Bokeh.index.find_one(plot);
          const box = document.getElementById("figure-map").firstElementChild
            .getBoundingClientRect();
          return {
            x: box.x + frame.x_scale.compute(data.x[i]),
            y: box.y + frame.y_scale.compute(data.y[i]),
            row: data.row[i], cluster: data.cluster[i], value: data.v0[i],
          };
        }""",
        place,
    )


def test_hovering_shows_the_row_and_its_values(page_of, twelve):
    page = page_of.page
    # The last point is drawn above all others.
    at = point_on_screen(page, page_of.shown_points() - 1)
    page.mouse.move(at["x"], at["y"])
    tooltip = page.locator(".bk-tooltip-content")
    tooltip.wait_for()
    text = tooltip.inner_text()
    row = int(re.search(r"row:\s*([\d,]+)", text)[1].replace(",", ""))
    place = twelve.coreset_.indices.tolist().index(row)
    for name in HOSTILE:
        shown = re.search(re.escape(shortened(name, 32)) + r":\s*(\S+)", text)
        assert shown is not None, text
        own = twelve.coreset_.points[place][HOSTILE.index(name)]
        assert float(shown[1]) == pytest.approx(own, rel=1e-5)
    page.mouse.move(0, 0)
    assert page.title() == HOSTILE[1]


def test_a_click_on_a_point_shows_its_cluster_alone(page_of):
    page, every = page_of.page, page_of.shown_points()
    at = point_on_screen(page, every - 1)
    page.mouse.click(at["x"], at["y"])
    assert page.locator("#alone").input_value() != ""
    page.click("#all")
    assert page_of.shown_points() == every


def test_colours_can_be_changed_and_figures_follow(page_of):
    page = page_of.page

    def seen() -> list[str]:
        return page.evaluate(
            """() => {
              const plots = Bokeh.documents.map((doc) => doc.roots()[0]);
              const map = plots.find((root) => root.name === "map");
              const shown = map.renderers.find((each) => each.name === "shown");
              return [
                getComputedStyle(document.body).backgroundColor,
                shown.glyph.fill_color.transform.palette[0],
                ...plots.map((plot) => plot.left[0].major_label_text_color),
              ];
            }"""
        )

    light = seen()
    page.click("#theme")
    dark = seen()
    assert all(one != other for one, other in zip(light, dark, strict=True))
    page.click("#theme")
    assert seen() == light


def test_opens_dark_where_that_is_preferred(browser, report):
    with opened(browser, report, color_scheme="dark") as found:
        colour = found.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(map(int, re.findall(r"\d+", colour))) < 60
        assert found.page.locator("#theme").inner_text() == "Light colours"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser, report, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    # The policy of the page lets no other script in, not even this one.
    with opened(browser, report, color_scheme=scheme, bypass_csp=True) as found:
        found.page.locator("details summary").click()
        found.page.select_option("#alone", "2")
        violations = axe.run(found.page).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"][:200]) for each in violations] == []


def test_fits_a_narrow_screen(browser, report):
    with opened(browser, report, viewport={"width": 400, "height": 800}) as found:
        assert found.page.evaluate("document.documentElement.scrollWidth") <= 400


def test_everything_is_on_paper_in_light_colours(browser, report):
    with opened(browser, report, color_scheme="dark") as found:
        page = found.page
        page.fill("#find", "7")
        pdf = page.pdf(format="A4", print_background=True)
        assert 3 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type/Page\n") <= 12
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 700, "height": 1_000})
        assert page.locator("#table tbody tr:visible").count() == 12
        assert page.locator("nav:visible, #theme:visible, .controls:visible").count() == 0
        assert page.locator("canvas.paper:visible").count() == 4
        for canvas in page.locator("canvas.paper").all():
            assert canvas.bounding_box()["width"] <= 700
        bar = page.eval_on_selector(
            "#figure-sizes canvas.paper",
            """(canvas) => {
              const at = [canvas.width * 0.2, canvas.height * 0.75];
              return [...canvas.getContext("2d").getImageData(...at, 1, 1).data].slice(0, 3);
            }""",
        )
        # The bars of the dark page are lighter.
        assert bar[0] < 100
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert colour == "rgb(255, 255, 255)"
        assert page.evaluate("document.documentElement.scrollWidth") <= 700
