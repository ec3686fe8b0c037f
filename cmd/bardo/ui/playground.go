package ui

import (
	"net/http"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/profile"
)

// playgroundData is the choices of the playground. The page's script sends the request to the gateway as any client does, with the key entered there: the
// dashboard sees neither the key nor the conversation.
type playgroundData struct{ Subsystems []subsystem }

// subsystem is a subsystem that a request may name.
type subsystem struct {
	Name   string
	Schema string // the schema of its answers; "" for none
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

// recordStatus tells the playground's script whether the viewer has a page for a request: 200, or 204 if there is none yet, or none for the viewer.
func (s *Server) recordStatus(w http.ResponseWriter, r *http.Request, v *viewer) error {
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
