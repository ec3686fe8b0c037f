package sealed

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"bardo.money/gateway/policy/e2ee"
	"bardo.money/gateway/policy/privacy"
)

// Handler serves OpenAI's chat completions, and sends each of them sealed. Only the caller's Authorization and X-Bardo-* headers are sent to the gateway. A
// streamed answer is sent in one piece, once it has been decrypted completely.
func (c *Client) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", c.serve)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "not_found", "only POST /v1/chat/completions is encrypted; "+r.Method+" "+r.URL.Path+" is not served here", nil)
	})
	return mux
}

func (c *Client) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Origin") != "" { // a web page could use the caller's key
		refuse(w, http.StatusForbidden, "origin_not_allowed", "web pages may not use this server", nil)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, "request_too_large", "the request is too large, or was cut off", nil)
		return
	}
	got, err := c.Send(r.Context(), body, forwardedHeaders(r.Header))
	if err != nil {
		status, code, details := http.StatusBadGateway, "gateway_unreachable", map[string]any(nil)
		if bad, ok := errors.AsType[errRequest](err); ok {
			status, code = http.StatusBadRequest, "invalid_request"
			if bad.constraint != privacy.Met {
				details = map[string]any{"constraint": bad.constraint}
			}
		} else if _, ok := errors.AsType[e2ee.Reason](err); ok {
			code = "e2ee_answer_refused"
		}
		refuse(w, status, code, err.Error(), details)
		return
	}
	if got.ID != "" {
		w.Header().Set("X-Bardo-Request-Id", got.ID)
	}
	w.Header().Set("Content-Type", got.Type)
	w.WriteHeader(got.Status)
	_, _ = w.Write(got.Body) // fails only if the client has disconnected
}

// forwardedHeaders returns the headers that the gateway needs.
func forwardedHeaders(h http.Header) http.Header {
	out := http.Header{}
	for name, values := range h {
		if name == "Authorization" || strings.HasPrefix(name, "X-Bardo-") {
			out[name] = values
		}
	}
	return out
}

// refuse writes an error in OpenAI's format, with details if there are any.
func refuse(w http.ResponseWriter, status int, code, message string, details map[string]any) {
	kind := "api_error"
	if status/100 == 4 {
		kind = "invalid_request_error"
	}
	fault := map[string]any{"message": message, "type": kind, "code": code}
	if details != nil {
		fault["details"] = details
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": fault}) // fails only if the client has disconnected
}

// headerTimeout bounds how long a caller may take to send its headers.
const headerTimeout = 10 * time.Second
