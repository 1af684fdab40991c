"""Chapter 10, continued: the claims of the sheets, a file a question.

The sheets answer the same questions, not always alike: what they claim about one stands side by
side. Each file has its checks first, then the list `CLAIMS`. Next: the registry.
"""
