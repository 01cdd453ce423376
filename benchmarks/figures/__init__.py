"""The tables of figures in README.md and docs/training-with-forebay.md, copied from the benchmarks' pages.

    python -m benchmarks.figures      writes both anew; nothing is measured

    measured_pages.py     finds a figure on a page by its section, row and heading
    readme.py             the README's two tables
    training_guide.py     the guide's table of steps

No figure is written by hand: tests compare the tables with the pages (tests/docs/test_readme.py, and
tests/docs/test_training_page.py). A part of a page that has not been measured yet has no row.
"""
