"How nano learns: its expert, its model in torch, its trainer and recipe."
