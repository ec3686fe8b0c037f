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

// IsToken returns the check of the operator's token. token is called for each login, since it may change.
func IsToken(token func() string) func(given string) bool {
	return func(given string) bool {
		want := token()
		have, expected := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want)) // of equal length, for ConstantTimeCompare
		return want != "" && subtle.ConstantTimeCompare(have[:], expected[:]) == 1
	}
}

// SwitchAt switches providers through the control socket of the program that owns their order, if that is another process.
func SwitchAt(socket string) func(ctx context.Context, provider, verb string) error {
	client := control.Client(socket)
	return func(ctx context.Context, provider, verb string) error {
		at := "http://control/providers/" + url.PathEscape(provider) + "/" + url.PathEscape(verb)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, http.NoBody) //nolint:gosec // the client dials the socket, whatever the URL
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
