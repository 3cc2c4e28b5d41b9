"""Evaluation of data and of fitted models: `check`, `choose_k`, `certify`, `drift`, `exemplars`.

Each has a module with the public function: `table_check`, `k_selection`, `certification`,
`drift_detection` and `typical_rows`. The modules beside them have its steps and its result.
"""
