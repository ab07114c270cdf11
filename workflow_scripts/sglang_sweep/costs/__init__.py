"""What collectives and speculation cost, measured alone and priced from profiles."""
