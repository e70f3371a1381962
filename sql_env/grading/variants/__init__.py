"Variants of a database that tell a wrong query from gold: read, filled, chosen, judged."
