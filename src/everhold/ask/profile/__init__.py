"""What the content of tables says about them: words of names, kinds of columns, keys."""
