"""What is copied by whom: layouts, claims, and the state topics that tell of them."""
