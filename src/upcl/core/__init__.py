"""The foundation: data types, recipes, options, errors, seeding, files, and pure mathematics."""
