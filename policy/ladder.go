package policy

import "slices"

// Ladders are lists of models, best first. A request that exceeds its budgets is served by a model further down the list that contains its own.
type Ladders [][]ModelID

// Cheaper configures what happens to requests that exceed their budget or balance. The zero value refuses them.
type Cheaper struct {
	Ladders Ladders // for requests that exceed their budgets
	Free    bool    // requests that exceed their balance are served by a free model
	Reserve Micro   // kept of a balance for risk, operator and death
}

// Below returns the models below one on its list, best first; nil for a model of no list.
func (l Ladders) Below(m ModelID) []ModelID {
	for _, models := range l {
		if i := slices.Index(models, m); i >= 0 {
			return models[i+1:]
		}
	}
	return nil
}
