"""Namespaces, where this system has them and allows them; elsewhere what needs them is skipped, with the reason."""

import pytest

from ecc.errors import EccError
from ecc.live.namespaces import ends_of_links


@pytest.fixture(scope="session")
def namespaces():
    try:
        ends = ends_of_links([(0, 1)], 1500)[0]
    except EccError as error:
        pytest.skip(str(error))
    for end in ends:
        end.close()
