"""Averaging and SCAFFOLD on digits that are divided by label."""

import fedloom as fl

digits = fl.data.load("digits")
clients = fl.data.partition(digits, "label", clients=10, classes_each=2, test_fraction=0.2)
problem = fl.problems.Multinomial(l2=1e-4, intercept=True)
for method in (fl.algorithms.FedAvg(lr=0.5), fl.algorithms.Scaffold(lr=0.5)):
    result = fl.simulate(method, problem, clients, rounds=100, batch_size=16)
    print(type(method).__name__, result.final["accuracy"], result.final["accuracy_worst"])
print(result.history)
