"""From a report to a terminal, an annotation, a document."""
