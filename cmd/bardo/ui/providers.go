package ui

import (
	"net/http"
	"slices"

	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/xds/health"
)

// providersData is the providers in the order in which they are tried.
type providersData struct {
	List []control.Provider
	Down int
	Done string
}

func (s *Server) providers(w http.ResponseWriter, r *http.Request, v *viewer) error {
	d := providersData{List: s.shownProviders(v), Done: doneText(r.URL.Query().Get("done"))}
	for _, p := range d.List {
		if p.State == string(health.Down) || p.State == string(health.CredentialRefused) {
			d.Down++
		}
	}
	s.render(w, http.StatusOK, v, "providers", view{Title: "Providers", Data: d})
	return nil
}

// shownProviders returns the providers as a viewer may see them: problems of the operator's account at a provider are hidden from others.
func (s *Server) shownProviders(v *viewer) []control.Provider {
	list := slices.Clone(s.o.Providers())
	for i := range list {
		if v.Operator {
			continue
		}
		p := &list[i]
		*p = control.Provider{Provider: p.Provider, State: p.State, Order: p.Order}
		if p.State == string(health.CredentialRefused) {
			p.State = string(health.Down)
		}
	}
	place := func(p control.Provider) int {
		if p.Order == 0 {
			return len(list) + 1
		}
		return p.Order
	}
	slices.SortStableFunc(list, func(a, b control.Provider) int { return place(a) - place(b) })
	return list
}

// switchProvider disables or enables a provider.
func (s *Server) switchProvider(w http.ResponseWriter, r *http.Request, _ *viewer) error {
	if err := s.o.Switch(r.Context(), r.PathValue("name"), r.PathValue("verb")); err != nil {
		return fault.New(fault.InvalidRequest, sentence(err.Error()), err)
	}
	http.Redirect(w, r, "/ui/providers?done=switched", http.StatusSeeOther)
	return nil
}
