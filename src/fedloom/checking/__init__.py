"""The laws that every method keeps, as a tool for anybody's method: `fl.check`."""
