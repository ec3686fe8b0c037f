package custom

import "bardo.money/gateway/internal/kind"

// Kind implements provider.Described.
func (a Adapter) Kind() kind.Kind {
	return kind.Kind{Name: a.Name(), Endpoints: kind.Endpoints()}
}
