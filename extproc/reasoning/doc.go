// Package reasoning brings the reasoning of every provider into one form. It finds thoughts that a model writes into its text between tags,
// where its provider does not tell them apart, and gathers what an answer shows of its reasoning into one Chain. It reads the canonical
// events of answers and knows no wire format.
package reasoning
