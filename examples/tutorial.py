"""A tour of fedloom as a marimo notebook: `marimo edit examples/tutorial.py`."""

import marimo

app = marimo.App(app_title="fedloom in five minutes")


@app.cell
def _():
    import marimo as mo

    import fedloom as fl

    return fl, mo


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    # fedloom in five minutes

    Ten sites hold handwritten digits, and each has seen only two of the ten. Their images may not
    leave them, and yet they want one model. This notebook divides the data, trains by averaging and
    by a method made for unlike sites, and looks at what each site gets.
    """)
    return


@app.cell
def _(fl):
    digits = fl.data.load("digits")
    clients = fl.data.partition(digits, "label", clients=10, classes_each=2, test_fraction=0.2)
    fl.partition_plot(clients)
    return (clients,)


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## One method

    A *problem* says what is optimised, an *algorithm* how. The result is a table: the mean over
    sites, and how the worst of them fares.
    """)
    return


@app.cell
def _(clients, fl):
    problem = fl.problems.Multinomial(l2=1e-4, intercept=True)
    averaging = fl.algorithms.FedAvg(lr=0.5, local_steps=20)
    result = fl.simulate(averaging, problem, clients, rounds=60, batch_size=16)
    result
    return averaging, problem, result


@app.cell
def _(result):
    result.plot("accuracy", "accuracy_worst")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## Several methods

    Local steps pull the model towards each site's own optimum. SCAFFOLD corrects each step by how
    the site differs from the rest, at the price of twice the messages. Both see the same data,
    batches and seeds.
    """)
    return


@app.cell
def _(averaging, clients, fl, problem):
    comparison = fl.compare(
        {"FedAvg": averaging, "SCAFFOLD": fl.algorithms.Scaffold(lr=0.5, local_steps=20)},
        problem,
        clients,
        seeds=(0, 1),
        metric="loss",
        rounds=60,
        batch_size=16,
    )
    comparison
    return (comparison,)


@app.cell
def _(comparison):
    comparison.plot("loss", "loss_worst")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## And then

    - `result.save("folder")` keeps a run, and `fedloom report folder` makes a page of it that opens
      in any browser.
    - `fedloom list algorithms` shows all methods, and `fedloom explain KEY` one of them.
    - A settings file does the same without Python: `fedloom compare settings.toml`.
    """)
    return


if __name__ == "__main__":
    app.run()
