package catalog_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy/catalog"
)

var update = flag.Bool("update", false, "write models.json anew, of models.yaml")

// TestTheEmbeddedFileIsModelsYAML: run it with -update after a change of models.yaml.
func TestTheEmbeddedFileIsModelsYAML(t *testing.T) {
	text, err := os.ReadFile("models.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, problems := config.ParseModels("models.yaml", text)
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	if *update {
		var b bytes.Buffer
		writeSet(t, &b, reflect.ValueOf(want))
		b.WriteByte('\n')
		if err := os.WriteFile("models.json", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !reflect.DeepEqual(catalog.Embedded(), want) {
		t.Error("models.json is not what models.yaml says: go test ./policy/catalog -run ModelsYAML -update")
	}
}

// writeSet writes a value as JSON, with only the fields of structs that are set; a pointer to false and an empty list are set. Each entry is on its
// own line.
func writeSet(t *testing.T, b *bytes.Buffer, v reflect.Value) {
	t.Helper()
	switch _, own := reflect.TypeAssert[json.Marshaler](v); {
	case !own && v.Kind() == reflect.Pointer:
		writeSet(t, b, v.Elem())
	case !own && v.Kind() == reflect.Slice:
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			if v.Index(i).Kind() == reflect.Struct {
				b.WriteByte('\n')
			}
			writeSet(t, b, v.Index(i))
		}
		b.WriteByte(']')
	case !own && v.Kind() == reflect.Struct:
		b.WriteByte('{')
		sep := ""
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				b.WriteString(sep + `"` + v.Type().Field(i).Name + `":`)
				writeSet(t, b, f)
				sep = ","
			}
		}
		b.WriteByte('}')
	default:
		text, err := json.Marshal(v.Interface())
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
}
