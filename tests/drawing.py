"""Properties that are drawn a few times in every run, and more often where slow tests are run."""

import pytest
from hypothesis import given, settings


def drawn(few, many):
    """Return what stands for `given` on a test: `few` examples in the default run, `many` in the slow one."""

    def strategies(*places, **names):
        def decorate(test):
            @pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.slow)])
            def test_drawn(examples):
                settings(max_examples=examples)(given(*places, **names)(test))()

            test_drawn.__doc__ = test.__doc__
            return test_drawn

        return decorate

    return strategies
