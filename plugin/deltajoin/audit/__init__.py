"""The audit record of each epoch: derived from the commit, kept in the ledger, verified, shown."""
