package ui

import (
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// privateRow is a request in which privacy was decided about.
type privateRow struct {
	row

	Attested bool
	Token    string // the hash of the token of its receipt
	Masked   bool   // the layer for personal data ran
	Relaxed  bool   // a privacy tier was asked for and not had
	Refused  bool   // no private provider was there
}

// privacyData is the stream of such requests, the latest first.
type privacyData struct {
	Rows                               []privateRow
	Attested, Masked, Relaxed, Refused int
	Looked                             int // at so many requests
	Names                              map[policy.Account]string
}

// privacyLooks is how many of the latest requests the page looks at.
const privacyLooks = 500

// codeNoPrivate is the error of a request that no private provider could take.
const codeNoPrivate = "no_private_provider"

func (s *Server) privacy(w http.ResponseWriter, r *http.Request, v *viewer) error {
	accounts, err := v.selected("")
	if err != nil {
		return err
	}
	names, err := s.keyNames(r.Context(), v)
	if err != nil {
		return err
	}
	found, err := s.find(r.Context(), accounts, ledger.RequestFilter{Limit: privacyLooks})
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

// privateOf is what a request's record says of privacy; ok is false where it says nothing.
func privateOf(r *ledger.Request, names map[policy.Account]string) (p privateRow, ok bool) {
	rec := recordOf(r)
	p = privateRow{
		row: rowOf(r, names), Attested: rec.Attestation != "", Token: rec.Attestation, Masked: ran(&rec, "l7"),
		Relaxed: slices.Contains(rec.Degraded, "privacy_tier"), Refused: rec.Error == codeNoPrivate,
	}
	return p, p.Attested || p.Masked || p.Relaxed || p.Refused
}

// ran reports whether a layer changed a request: what it did is in the pipeline's entry.
func ran(rec *record.Request, name string) bool {
	return slices.ContainsFunc(layersOf(rec.Pipeline), func(l layer) bool { return strings.EqualFold(l.Name, name) && len(l.Notes) > 0 })
}
