"""Fails, as imports do."""

orders = {1: "12.50", 2: "free"}
for number, total in orders.items():
    print(f"order {number}: {float(total):.2f}")
