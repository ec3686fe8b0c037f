package ui

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// sortStores sorts by entries, most first.
func sortStores(all []store) {
	slices.SortFunc(all, func(a, b store) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Account, b.Account))
	})
}

// keyCard is an API key without its secret, with its spending.
type keyCard struct {
	ledger.KeyRow
	State              string // active, read only, expired, revoked, publishable
	Balance            *ledger.Balance
	Today, Month       policy.Micro
	DayPart, MonthPart int // percent of the limit, at most 100
}

// group is a project or an owner, with its budget.
type group struct {
	ledger.Group
	Today, Month       policy.Micro
	DayPart, MonthPart int
}

// keysData is the viewer's keys, and for the operator also projects and owners.
type keysData struct {
	Keys     []keyCard
	Projects []group
	Owners   []group
	Form     keyForm
	Created  *created // by this request
	Done     string
	Revoked  int // revoked keys that are not shown
	All      bool
}

// created is a new key with its secret, which is not shown again.
type created struct{ ID, Name, Secret string }

func (s *Server) keys(w http.ResponseWriter, r *http.Request, v *viewer) error {
	d, err := s.keysData(r, v)
	if err != nil {
		return err
	}
	s.render(w, http.StatusOK, v, "keys", view{Title: "Keys and budgets", Data: d})
	return nil
}

func (s *Server) keysData(r *http.Request, v *viewer) (*keysData, error) {
	d := &keysData{Done: doneText(r.URL.Query().Get("done")), All: r.URL.Query().Has("all"), Form: keyForm{Tier: policy.TierPro}}
	rows, err := s.o.Books.Keys(r.Context())
	if err != nil {
		return nil, err
	}
	slices.Reverse(rows)
	for i := range rows {
		if !v.maySee(rows[i].ID) {
			continue
		}
		if rows[i].Revoked() && !d.All {
			d.Revoked++
			continue
		}
		k, err := s.card(r.Context(), &rows[i])
		if err != nil {
			return nil, err
		}
		d.Keys = append(d.Keys, k)
	}
	if !v.Operator {
		return d, nil
	}
	if d.Projects, err = s.groups(r.Context(), policy.OfProject); err != nil {
		return nil, err
	}
	d.Owners, err = s.groups(r.Context(), policy.OfOwner)
	return d, err
}

// firstOfMonth is the start of the UTC month.
func firstOfMonth(now time.Time) time.Time {
	y, m, _ := now.UTC().Date()
	return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
}

func (s *Server) card(ctx context.Context, row *ledger.KeyRow) (k keyCard, err error) {
	k = keyCard{KeyRow: *row, State: stateOf(row, s.o.Now())}
	if k.Today, err = s.o.Books.SpentSince(ctx, row.ID, dayOf(s.o.Now(), 0)); err != nil {
		return k, err
	}
	if k.Month, err = s.o.Books.SpentSince(ctx, row.ID, firstOfMonth(s.o.Now())); err != nil {
		return k, err
	}
	k.DayPart, k.MonthPart = part(k.Today, row.SpendDay), part(k.Month, row.SpendMonth)
	if row.Prepaid {
		b, err := s.o.Books.Balance(ctx, row.ID)
		if err != nil {
			return k, err
		}
		k.Balance = &b
	}
	return k, nil
}

func stateOf(k *ledger.KeyRow, now time.Time) string {
	switch {
	case k.Revoked():
		return "revoked"
	case k.Expired(now):
		return "expired"
	case k.Publishable:
		return "publishable"
	case k.ReadOnly:
		return "read only"
	}
	return "active"
}

// part is the percentage of a limit that was spent, at most 100.
func part(spent, limit policy.Micro) int {
	if limit <= 0 {
		return 0
	}
	return int(min(spent*100/limit, 100))
}

// groups returns all projects, or all owners, with their spending.
func (s *Server) groups(ctx context.Context, kind policy.Holder) (all []group, err error) {
	rows, err := s.o.Books.Groups(ctx, kind)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		g := group{Group: row}
		b := policy.Budget{Holder: kind, ID: row.ID}
		if g.Today, err = s.o.Books.SpentOf(ctx, b, dayOf(s.o.Now(), 0)); err != nil {
			return nil, err
		}
		if g.Month, err = s.o.Books.SpentOf(ctx, b, firstOfMonth(s.o.Now())); err != nil {
			return nil, err
		}
		g.DayPart, g.MonthPart = part(g.Today, row.SpendDay), part(g.Month, row.SpendMonth)
		all = append(all, g)
	}
	return all, nil
}

// keyForm is the submitted form of a new key.
type keyForm struct {
	Name, Balance, Day, Month, RPM, Project string
	Tier                                    policy.Tier
	ReadOnly                                bool
	Error                                   string
}

func readKeyForm(r *http.Request) keyForm {
	get := func(name string) string { return strings.TrimSpace(r.PostFormValue(name)) }
	return keyForm{
		Name: get("name"), Tier: policy.Tier(get("tier")), Balance: get("balance"), Day: get("day"), Month: get("month"), RPM: get("rpm"), Project: get("project"),
		ReadOnly: r.PostFormValue("read_only") == "yes",
	}
}

// tiers are the plans of keys.
var tiers = []policy.Tier{policy.TierFree, policy.TierPro, policy.TierGolem}

// maxName bounds a key's name, in bytes.
const maxName = 100

// row converts the form to a key and its opening balance.
func (f *keyForm) row() (k ledger.KeyRow, opening policy.Micro, err error) {
	if f.Name == "" || len(f.Name) > maxName || strings.ContainsFunc(f.Name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return k, 0, errors.New("the name must have 1 to 100 characters, and no control characters")
	}
	k = ledger.KeyRow{Name: f.Name, Tier: f.Tier, ReadOnly: f.ReadOnly, Project: f.Project}
	if !slices.Contains(tiers, k.Tier) {
		return k, 0, errors.New("the plan must be free, pro or golem")
	}
	if f.Balance != "" {
		k.Prepaid = true
		if opening, err = amount("balance", f.Balance); err != nil {
			return k, 0, err
		}
	}
	return k, opening, f.limits(&k)
}

// limits sets the form's limits in a key; an empty field means none.
func (f *keyForm) limits(k *ledger.KeyRow) (err error) {
	k.RPM = 0
	if f.RPM != "" {
		n, err := strconv.ParseUint(f.RPM, 10, 31)
		if err != nil {
			return errors.New("requests per minute must be a whole number, or empty for the configured limit")
		}
		if k.RPM = int(n); n == 0 {
			k.RPM = policy.Unlimited
		}
	}
	if k.SpendDay, err = amount("limit per day", f.Day); err != nil {
		return err
	}
	k.SpendMonth, err = amount("limit per month", f.Month)
	return err
}

// amount parses dollars; "" is 0.
func amount(name, s string) (policy.Micro, error) {
	if s == "" {
		return 0, nil
	}
	m, err := policy.ParseUSD(strings.TrimPrefix(s, "$"))
	if err != nil || m < 0 {
		return 0, errors.New("the " + name + " must be an amount of dollars such as 2.50")
	}
	return m, nil
}

func (s *Server) createKey(w http.ResponseWriter, r *http.Request, v *viewer) error {
	form := readKeyForm(r)
	k, opening, err := form.row()
	c := created{Name: k.Name}
	if err == nil {
		c.ID, c.Secret, err = s.o.CreateKey(r.Context(), k, opening)
	}
	status := http.StatusOK
	d, readErr := s.keysData(r, v)
	if readErr != nil {
		return readErr
	}
	if err != nil {
		if !isUserError(err) {
			return err
		}
		status, d.Form = http.StatusUnprocessableEntity, form
		d.Form.Error = sentence(plainCause(err))
	} else {
		d.Created = &c
	}
	s.render(w, status, v, "keys", view{Title: "Keys and budgets", Data: d})
	return nil
}

// isUserError reports whether the operator can correct the error.
func isUserError(err error) bool {
	_, isFault := errors.AsType[*fault.Fault](err)
	return !isFault && !errors.Is(err, ledger.ErrClosed)
}

// plainCause is the error's text without the id of the key that was not created.
func plainCause(err error) string {
	if errors.Is(err, ledger.ErrUnknownGroup) {
		return "there is no such project"
	}
	return err.Error()
}

func (s *Server) revokeKey(w http.ResponseWriter, r *http.Request, _ *viewer) error {
	if err := s.o.Books.RevokeKey(r.Context(), policy.Account(r.PathValue("id"))); err != nil {
		return unknownKey(err)
	}
	http.Redirect(w, r, "/ui/keys?done=revoked", http.StatusSeeOther)
	return nil
}

func unknownKey(err error) error {
	if errors.Is(err, ledger.ErrUnknownKey) {
		return fault.New(fault.NotFound, "There is no such key.", err)
	}
	return err
}

// limitKey changes a key's spending and rate limits.
func (s *Server) limitKey(w http.ResponseWriter, r *http.Request, _ *viewer) error {
	form := readKeyForm(r)
	err := s.o.Books.UpdateKey(r.Context(), policy.Account(r.PathValue("id")), func(k *ledger.KeyRow) error {
		if k.Revoked() {
			return errRevoked
		}
		if err := form.limits(k); err != nil {
			return fault.New(fault.InvalidRequest, sentence(err.Error()), err)
		}
		return nil
	})
	if err != nil {
		return unknownKey(err)
	}
	http.Redirect(w, r, "/ui/keys?done=limited", http.StatusSeeOther)
	return nil
}

var errRevoked = fault.New(fault.InvalidRequest, "The key was revoked, which is for good.", nil)
