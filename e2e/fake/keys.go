package fake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"bardo.money/gateway/internal/rawjson"
)

// The keys of an account at Venice, as its reference has them (docs.venice.ai/api-reference/endpoint/api_keys): made, limited, listed and deleted with a key of
// the type ADMIN.

// issued are the keys that were made. The zero value has none.
type issued struct {
	mu   sync.Mutex
	n    int
	keys []Issued
}

// Issued is one key of the account.
type Issued struct {
	ID, Key, Description, Period string

	USD, DIEM float64 // its limits
}

// Issued are the keys that there are.
func (s *Server) Issued() []Issued {
	s.issued.mu.Lock()
	defer s.issued.mu.Unlock()
	return slices.Clone(s.issued.keys)
}

// Issue makes a key by hand.
func (s *Server) Issue(description string) Issued {
	return s.issued.add(Issued{Description: description})
}

// Unissue deletes a key by hand.
func (s *Server) Unissue(id string) bool { return s.issued.remove(id) }

func (k *issued) add(i Issued) Issued {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n++
	i.ID, i.Key = fmt.Sprintf("e28e82dc-9df2-4b47-b726-%012d", k.n), fmt.Sprintf("sk-fake-venice-issued-%06d", k.n)
	k.keys = append(k.keys, i)
	return i
}

func (k *issued) remove(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := len(k.keys)
	k.keys = slices.DeleteFunc(k.keys, func(i Issued) bool { return i.ID == id })
	return len(k.keys) < before
}

// takes reports whether a key is one of them.
func (k *issued) takes(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.keys, func(i Issued) bool { return i.Key == key })
}

// routeKeys answers for the keys of an account that has an admin key; ok is false for other paths.
func (s *Server) routeKeys(r *Request) (o outcome, ok bool) {
	if s.cfg.Vendor != Venice || s.cfg.Admin == "" || strings.TrimPrefix(r.Path, "/v1") != "/api_keys" {
		return outcome{}, false
	}
	if r.Key() != s.cfg.Admin {
		return refusedKeys(http.StatusUnauthorized, "Authentication failed"), true
	}
	switch r.Method {
	case http.MethodGet:
		return outcome{fixed: s.issued.list()}, true
	case http.MethodPost:
		return s.issued.create(r.Body), true
	case http.MethodPatch:
		return s.issued.update(r.Body), true
	case http.MethodDelete:
		q, err := url.ParseQuery(r.RawQuery)
		if err != nil || !s.issued.remove(q.Get("id")) {
			return refusedKeys(http.StatusNotFound, "API key not found"), true
		}
		return outcome{fixed: []byte(`{"success":true}`)}, true
	}
	return refusedKeys(http.StatusMethodNotAllowed, "Method Not Allowed"), true
}

func refusedKeys(status int, message string) outcome {
	return outcome{refused: &refusal{Status: status, Kind: "invalid_request_error", Message: message}}
}

// limits is what a document says of a key's limits.
func (i *Issued) limits(o rawjson.Object) error {
	var limit struct{ USD, DIEM, VCU *float64 }
	if raw, ok := o["consumptionLimit"]; ok {
		if err := json.Unmarshal(raw, &limit); err != nil {
			return err
		}
	}
	if limit.USD != nil {
		i.USD = *limit.USD
	}
	if limit.DIEM != nil {
		i.DIEM = *limit.DIEM
	}
	if raw, ok := o["limitPeriod"]; ok {
		if json.Unmarshal(raw, &i.Period) != nil || !slices.Contains([]string{"EPOCH", "MONTH", "LIFETIME"}, i.Period) {
			return fmt.Errorf("limitPeriod: %s", raw)
		}
	}
	if i.USD < 0 || i.DIEM < 0 {
		return fmt.Errorf("consumptionLimit: %v, %v", i.USD, i.DIEM)
	}
	return nil
}

func (k *issued) create(body []byte) outcome {
	o, err := rawjson.Parse(body)
	if err != nil {
		return refusedKeys(http.StatusBadRequest, err.Error())
	}
	i := Issued{Period: "EPOCH"}
	var kind string
	if json.Unmarshal(o["apiKeyType"], &kind) != nil || kind != "INFERENCE" && kind != "ADMIN" {
		return refusedKeys(http.StatusBadRequest, "apiKeyType is required")
	}
	if json.Unmarshal(o["description"], &i.Description) != nil || i.Description == "" {
		return refusedKeys(http.StatusBadRequest, "description is required")
	}
	if err := i.limits(o); err != nil {
		return refusedKeys(http.StatusBadRequest, err.Error())
	}
	i = k.add(i)
	return outcome{fixed: fmt.Appendf(nil, `{"data":{"apiKey":%q,"apiKeyType":%q,"consumptionLimit":{"usd":%v,"diem":%v,"vcu":null},"limitPeriod":%q,"expiresAt":null,"id":%q,"description":%s},"success":true}`,
		i.Key, kind, i.USD, i.DIEM, i.Period, i.ID, quote(i.Description))}
}

func (k *issued) update(body []byte) outcome {
	o, err := rawjson.Parse(body)
	if err != nil {
		return refusedKeys(http.StatusBadRequest, err.Error())
	}
	var id string
	_ = json.Unmarshal(o["id"], &id)
	k.mu.Lock()
	defer k.mu.Unlock()
	at := slices.IndexFunc(k.keys, func(i Issued) bool { return i.ID == id })
	if at < 0 {
		return refusedKeys(http.StatusNotFound, "API key not found")
	}
	i := k.keys[at]
	if err := i.limits(o); err != nil {
		return refusedKeys(http.StatusBadRequest, err.Error())
	}
	k.keys[at] = i
	return outcome{fixed: fmt.Appendf(nil, `{"data":%s,"success":true}`, i.shown())}
}

func (k *issued) list() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	rows := make([]string, len(k.keys))
	for n, i := range k.keys {
		rows[n] = i.shown()
	}
	return fmt.Appendf(nil, `{"object":"list","data":[%s]}`, strings.Join(rows, ","))
}

// shown is a key as lists have it, without the key itself.
func (i *Issued) shown() string {
	return fmt.Sprintf(`{"apiKeyType":"INFERENCE","consumptionLimits":{"usd":%v,"diem":%v,"vcu":null},"limitPeriod":%q,"createdAt":"2026-01-01T00:00:00.000Z","expiresAt":null,"id":%q,"last6Chars":%q,"lastUsedAt":null,"description":%s}`,
		i.USD, i.DIEM, i.Period, i.ID, i.Key[len(i.Key)-6:], quote(i.Description))
}
