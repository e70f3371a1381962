"A small model that plays without torch: its text, tokenizer and forward pass."
