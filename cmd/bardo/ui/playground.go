package ui

import (
	"net/http"

	"bardo.money/gateway/policy/intent"
)

// playgroundData is what one chooses from to try a request. The page's script sends it to the gateway as any client does, with the key that one enters there:
// the dashboard sees neither the key nor what is said.
type playgroundData struct{ Subsystems []string }

func (s *Server) playground(w http.ResponseWriter, _ *http.Request, v *viewer) error {
	s.render(w, http.StatusOK, v, "playground", view{Title: "Playground", Data: playgroundData{intent.Subsystems()}})
	return nil
}
