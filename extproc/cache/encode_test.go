package cache

import (
	"reflect"
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
)

// TestAnEncodedEntryKeepsEveryField of what it describes, and of its record.
func TestAnEncodedEntryKeepsEveryField(t *testing.T) {
	e := NewEntry([]chat.Event{{Kind: chat.Start, ID: "a", Model: "m"}, filled(t), {Kind: chat.End}})
	fillAll(reflect.ValueOf(&e.Served).Elem())
	e.Key, e.Format, e.Market = Key{7}, Format{chat.Anthropic, true}, Market{"golem", "calm"}
	e.Created, e.Expires = time.Unix(1_700_000_000, 5).UTC(), time.Unix(1_700_000_300, 5).UTC()
	b, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again, e) {
		t.Errorf("got\n%+v\nwant\n%+v", again, e)
	}
	for n := range b {
		if e, err := Decode(b[:n]); err == nil {
			t.Fatalf("%d of %d bytes are read as %+v", n, len(b), e)
		}
	}
	e.record = e.record[:len(e.record)-3]
	if b, err = e.Encode(); err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(b); err == nil {
		t.Error("half a record is read")
	}
}

// fillAll sets every field to something.
func fillAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				fillAll(field)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillAll(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillAll(v.Index(0))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.String:
		v.SetString("text")
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint8, reflect.Uint, reflect.Uint64:
		v.SetUint(3)
	default:
	}
}

// FuzzDecode: whatever is read, it is an entry or an error.
func FuzzDecode(f *testing.F) {
	b, err := NewEntry([]chat.Event{{Kind: chat.Start}, {Kind: chat.Text, Text: []byte("some text")}, {Kind: chat.End}}).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Decode(b)
		if err != nil {
			return
		}
		if _, err := e.Encode(); err != nil {
			t.Error(err)
		}
	})
}
