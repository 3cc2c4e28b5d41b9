"""Evaluation of fitted models and of data: `certify`, `drift` and `choose_k`.

Each has a module that begins with the public function: `certification`, `drift_detection` and
`k_selection`. The modules beside them have its targets, its steps and its result.
"""
