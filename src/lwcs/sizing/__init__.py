"""How large a sample has to be: nested levels, and what the draws not used say of them."""
