"""Which chat templates say themselves what the model says."""

from __future__ import annotations

import pytest
from specgen_runtime.llm.conversations.templates import has_generation_blocks


@pytest.mark.parametrize(
    ("template", "marked"),
    [
        ("{% generation %}{{ x }}{% endgeneration %}", True),
        ("{%- generation -%}{{ x }}{%- endgeneration -%}", True),
        ("{%generation%}{{ x }}{%endgeneration%}", True),
        ("{{ x }}", False),
        ("{# {% generation %}{{ x }}{% endgeneration %} #}{{ x }}", False),
        ("{% raw %}{% generation %}{% endraw %}", False),
        ("{{ '{% generation %}' }}", False),
        ("{% if generation %}{{ x }}{% endif %}", False),
        ("{# marks #}{% generation %}{{ x }}{% endgeneration %}", True),
    ],
)
def test_blocks_count_where_they_are_read(template: str, marked: bool) -> None:
    assert has_generation_blocks(template) is marked
