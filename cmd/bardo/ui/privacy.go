package ui

import (
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// privateRow is a request with a privacy decision.
type privateRow struct {
	row

	Attested bool
	Token    string // hash of the attestation token
	Masked   bool   // the layer for personal data changed the request
	Relaxed  bool   // the requested privacy tier was relaxed
	Refused  bool   // no private provider was available
}

// privacyData is the list of such requests, the latest first.
type privacyData struct {
	Rows                               []privateRow
	Attested, Masked, Relaxed, Refused int
	Looked                             int // number of requests examined
	Names                              map[policy.Account]string
}

// privacyLimit is how many of the latest requests the page examines.
const privacyLimit = 500

// codeNoPrivate is the error code if no private provider can serve a request.
const codeNoPrivate = "no_private_provider"

func (s *Server) privacy(w http.ResponseWriter, r *http.Request, v *viewer) error {
	accounts, err := v.accountsFor("")
	if err != nil {
		return err
	}
	names, err := s.keyNames(r.Context(), v)
	if err != nil {
		return err
	}
	found, err := s.find(r.Context(), accounts, ledger.RequestFilter{Limit: privacyLimit})
	if err != nil {
		return err
	}
	d := privacyData{Looked: len(found), Names: names}
	for i := range found {
		if p, ok := privateOf(&found[i], names); ok {
			d.add(&p)
		}
	}
	s.render(w, http.StatusOK, v, "privacy", view{Title: "Privacy", Data: d})
	return nil
}

func (d *privacyData) add(p *privateRow) {
	for _, c := range []struct {
		is    bool
		count *int
	}{{p.Attested, &d.Attested}, {p.Masked, &d.Masked}, {p.Relaxed, &d.Relaxed}, {p.Refused, &d.Refused}} {
		if c.is {
			*c.count++
		}
	}
	d.Rows = append(d.Rows, *p)
}

// privateOf extracts the privacy decisions of a request's record; ok is false if there are none.
func privateOf(r *ledger.Request, names map[policy.Account]string) (p privateRow, ok bool) {
	rec := recordOf(r)
	p = privateRow{
		row: rowOf(r, names), Attested: rec.Attestation != "", Token: rec.Attestation, Masked: layerChanged(&rec, "l7"),
		Relaxed: slices.Contains(rec.Degraded, "privacy_tier"), Refused: rec.Error == codeNoPrivate,
	}
	return p, p.Attested || p.Masked || p.Relaxed || p.Refused
}

// layerChanged reports whether a layer changed a request: its entry in the pipeline then has notes.
func layerChanged(rec *record.Request, name string) bool {
	return slices.ContainsFunc(layersOf(rec.Pipeline), func(l layer) bool { return strings.EqualFold(l.Name, name) && len(l.Notes) > 0 })
}
