package policy

import "slices"

// Ladders are lists of models, best first: a request that its budgets do not pay for is served by a model further down the list of its own.
type Ladders [][]ModelID

// Cheaper says what becomes of requests that their budgets or their balances do not pay for. The zero value refuses them.
type Cheaper struct {
	Ladders Ladders // for those that do not fit into their budgets
	Free    bool    // those that their balance does not pay for are served by a free model
	Reserve Micro   // that is kept of a balance for risk, operator and death
}

// Below are the models under one, best first; nil for a model of no list.
func (l Ladders) Below(m ModelID) []ModelID {
	for _, models := range l {
		if i := slices.Index(models, m); i >= 0 {
			return models[i+1:]
		}
	}
	return nil
}
