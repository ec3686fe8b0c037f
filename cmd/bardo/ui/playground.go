package ui

import (
	"net/http"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/profile"
)

// playgroundData is what one chooses from to try a request. The page's script sends it to the gateway as any client does, with the key that one enters there:
// the dashboard sees neither the key nor what is said.
type playgroundData struct{ Subsystems []subsystem }

// subsystem is one whose parameters a request may have.
type subsystem struct {
	Name   string
	Schema string // that its answers are checked against; "" for none
}

func subsystems(checked bool) (all []subsystem) {
	for _, name := range intent.Subsystems() {
		s := subsystem{Name: name}
		if row := profile.RowOf(name); checked && row != nil {
			s.Schema = row.Profile.SchemaName
		}
		all = append(all, s)
	}
	return all
}

func (s *Server) playground(w http.ResponseWriter, _ *http.Request, v *viewer) error {
	s.render(w, http.StatusOK, v, "playground", view{Title: "Playground", Data: playgroundData{subsystems(s.o.Checked())}})
	return nil
}

// readable tells the playground's script whether the viewer has a page for a request: 200, or 204 where there is none for them or it is not written yet.
func (s *Server) readable(w http.ResponseWriter, r *http.Request, v *viewer) error {
	_, err := s.requestOf(r.Context(), v, r.PathValue("id"))
	switch {
	case err == nil:
		w.WriteHeader(http.StatusOK)
	case fault.From(err).Kind == fault.NotFound:
		w.WriteHeader(http.StatusNoContent)
	default:
		return err
	}
	return nil
}
