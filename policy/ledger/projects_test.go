package ledger

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"bardo.money/gateway/policy"
)

// TestB05KeysOfProjectsOfOwners: budgets nest, reads of the key show changes, and spending is summed over the keys.
func TestB05KeysOfProjectsOfOwners(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	owner := Group{Kind: policy.OfOwner, ID: "acme", Name: "Acme", SpendMonth: 9 * usd, CreatedAt: time.UnixMicro(5)}
	project := Group{Kind: policy.OfProject, ID: "web", Name: "Web", Owner: "acme", SpendDay: 3 * usd, CreatedAt: time.UnixMicro(6)}
	for _, g := range []Group{owner, project} {
		if err := l.CreateGroup(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		if have, err := tool(t, path).Groups(t.Context(), g.Kind); err != nil || !reflect.DeepEqual(have, []Group{g}) {
			t.Errorf("%+v, %v, want %+v", have, err, g)
		}
	}
	for _, id := range []policy.Account{"a", "b", "other"} {
		withKey(t, l, id, 100*usd)
	}
	join := func(id policy.Account, to string) error {
		return l.UpdateKey(t.Context(), id, func(k *KeyRow) error { k.Project, k.SpendMonth = to, 5*usd; return nil })
	}
	before := l.Generation()
	if err := errors.Join(join("a", "web"), join("b", "web")); err != nil {
		t.Fatal(err)
	}
	if err := l.UpdateGroup(t.Context(), policy.OfProject, "web", func(g *Group) error { g.SpendDay = 4 * usd; return nil }); err != nil {
		t.Fatal(err)
	}
	if l.Generation() == before {
		t.Error("verifiers keep the old budgets")
	}
	k, ok, err := l.Key(t.Context(), "a")
	want := []policy.Budget{{Holder: policy.OfKey, ID: "a", PerMonth: 5 * usd}, {Holder: policy.OfProject, ID: "web", PerDay: 4 * usd}, {Holder: policy.OfOwner, ID: "acme", PerMonth: 9 * usd}}
	if have := k.Principal().Budgets; !ok || err != nil || !reflect.DeepEqual(have, want) {
		t.Errorf("%+v, %v", have, err)
	}
	for i, id := range []policy.Account{"a", "b", "other"} {
		capture(t, l, reserve(t, l, id, string(id), usd), usd*policy.Micro(i+1)/2)
	}
	for _, b := range want[1:] {
		for _, reader := range []*Ledger{l, tool(t, path)} {
			if have, err := reader.SpentOf(t.Context(), b, time.Now()); err != nil || have != usd*3/2 {
				t.Errorf("%s: %s, %v", b.ID, have, err)
			}
		}
	}
	if have, err := l.SpentOf(t.Context(), want[0], time.Now()); err != nil || have != usd/2 {
		t.Errorf("%s, %v", have, err)
	}
	if err := join("a", ""); err != nil {
		t.Error(err)
	}
	if k, _, _ := l.Key(t.Context(), "a"); len(k.Principal().Budgets) != 1 || k.Project != "" {
		t.Errorf("%+v", k)
	}
}

func TestChangesOfGroupsThatAreRefused(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", usd)
	project := func(id, owner string, day policy.Micro) error {
		return l.CreateGroup(t.Context(), Group{Kind: policy.OfProject, ID: id, Owner: owner, SpendDay: day})
	}
	if err := l.CreateGroup(t.Context(), Group{Kind: policy.OfOwner, ID: "o"}); err != nil {
		t.Fatal(err)
	}
	if err := project("p", "o", 0); err != nil {
		t.Fatal(err)
	}
	mine := errors.New("mine")
	change := func(id string, f func(*Group) error) error {
		return l.UpdateGroup(t.Context(), policy.OfProject, id, f)
	}
	for _, c := range []struct {
		sentence  string
		err, want error
	}{
		{"an id that is taken", project("p", "o", 0), ErrGroupExists},
		{"no id", project("", "o", 0), ErrGroupID},
		{"a path", project("../x", "o", 0), ErrGroupID},
		{"an unknown owner", project("q", "x", 0), ErrUnknownGroup},
		{"a negative limit", project("q", "o", -1), ErrAmount},
		{"an unknown project", change("x", func(*Group) error { return nil }), ErrUnknownGroup},
		{"an error of the change", change("p", func(*Group) error { return mine }), mine},
		{"to an unknown owner", change("p", func(g *Group) error { g.Owner = "x"; return nil }), ErrUnknownGroup},
		{"a key of an unknown project", l.UpdateKey(t.Context(), "k", func(k *KeyRow) error { k.Project = "x"; return nil }), ErrUnknownGroup},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", c.sentence, c.err, c.want)
		}
	}
	if groups, err := l.Groups(t.Context(), policy.OfProject); err != nil || len(groups) != 1 {
		t.Errorf("%+v, %v", groups, err)
	}
}
