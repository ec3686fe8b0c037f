package ui

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"bardo.money/gateway/cmd/bardo/control"
)

// IsToken makes the check of the operator's token. token is called at each log-in: the token may change.
func IsToken(token func() string) func(given string) bool {
	return func(given string) bool {
		want := token()
		have, expected := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want)) // of one length
		return want != "" && subtle.ConstantTimeCompare(have[:], expected[:]) == 1
	}
}

// SwitchAt switches providers by the control socket of the program that decides on their order, where that is not this one.
func SwitchAt(socket string) func(ctx context.Context, provider, verb string) error {
	client := control.Client(socket)
	return func(ctx context.Context, provider, verb string) error {
		at := "http://control/providers/" + url.PathEscape(provider) + "/" + url.PathEscape(verb)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, http.NoBody) //nolint:gosec // the client dials the socket, whatever the address says
		if err != nil {
			return err
		}
		resp, err := client.Do(req) //nolint:gosec // the same
		if err != nil {
			return errors.New("the program that decides on the order of providers does not answer")
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		const longest = 4096
		var e struct{ Error string }
		if json.NewDecoder(io.LimitReader(resp.Body, longest)).Decode(&e) != nil || e.Error == "" {
			return errors.New("the provider was not switched: " + resp.Status)
		}
		return errors.New(e.Error)
	}
}
