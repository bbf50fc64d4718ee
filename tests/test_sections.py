"""Each benchmark writes its own section of a page and keeps the others."""

from __future__ import annotations

from benchmarks.sections import section, with_section

PAGE = "# Speed\n\nintroduction\n\n## Goals\n\nof one\n\n## Steps\n\n### of two\n\n- 3\n"


def test_a_section_is_replaced_or_added_and_the_others_stay() -> None:
    assert section(PAGE, "Goals") == "## Goals\n\nof one\n\n"
    assert section(PAGE, "Steps") == "## Steps\n\n### of two\n\n- 3\n" and not section(PAGE, "St")
    more = with_section(PAGE, "Driver", "## Driver\n\nten\n")
    assert more == PAGE + "\n## Driver\n\nten\n"
    assert with_section(more, "Driver", section(more, "Driver")) == more
    other = with_section(more, "Goals", "## Goals\n\nof four")
    assert other == more.replace("of one", "of four")
    assert with_section(more, "Driver", "## Driver\n\n7") == PAGE + "\n## Driver\n\n7\n"
