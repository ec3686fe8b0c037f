package rawjson_test

import (
	"reflect"
	"slices"
	"testing"

	"bardo.money/gateway/internal/rawjson"
)

func TestAMemberOfAnotherTypeReadsAsZero(t *testing.T) {
	o, err := rawjson.Parse([]byte(`{"s":"text","n":1.5,"b":true,"o":{"x":"y"},"l":["a"],"objects":[{"x":"z"}],"null":null}`))
	if err != nil {
		t.Fatal(err)
	}
	n, ok := o.Num("n")
	if o.Str("s") != "text" || n != 1.5 || !ok || !o.Bool("b") || o.Object("o").Str("x") != "y" ||
		!slices.Equal(o.Strings("l"), []string{"a"}) || o.List("objects")[0].Str("x") != "z" {
		t.Errorf("read %v", o)
	}
	n, ok = o.Num("s")
	if o.Str("n") != "" || n != 0 || ok || o.Bool("s") || o.Object("s") != nil || o.Strings("s") != nil || o.List("s") != nil {
		t.Error("a member of another type has a value")
	}
	if o.Has("null") || o.Has("missing") || !o.Has("s") || o.Unknown("s", "n", "o", "l", "objects", "null") != "b" {
		t.Error("wrong members")
	}
}

func TestKeysKeepTheirOrder(t *testing.T) {
	if got := rawjson.Keys([]byte(`{"z":1,"a":{"b":2},"m":[3]}`)); !slices.Equal(got, []string{"z", "a", "m"}) {
		t.Errorf("keys %v", got)
	}
	if got := rawjson.Keys([]byte(`["a"]`)); got != nil {
		t.Errorf("an array has keys %v", got)
	}
}

func TestReferencesResolveInsideOfTheDocument(t *testing.T) {
	root := []byte(`{"$defs":{"a/b":{"type":"null"}}}`)
	got := map[string]string{}
	for _, ref := range []string{"#", "#/$defs/a~1b", "#/$defs/none", "other.json#/a", "#/$defs/none/x"} {
		got[ref] = string(rawjson.Resolve(root, ref))
	}
	want := map[string]string{"#": string(root), "#/$defs/a~1b": `{"type":"null"}`, "#/$defs/none": "", "other.json#/a": "", "#/$defs/none/x": ""}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}
