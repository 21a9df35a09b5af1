"""The laws that every method keeps, and `fl.check`, which tests a method against them."""
