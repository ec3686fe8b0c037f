package stored_test

import (
	"bytes"
	"errors"
	"mime/multipart"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/stored"
)

const form = "multipart/form-data; boundary=b"

func upload(parts ...string) []byte {
	return []byte("--b\r\n" + strings.Join(parts, "\r\n--b\r\n") + "\r\n--b--\r\n")
}

func field(name, value string) string {
	return `Content-Disposition: form-data; name="` + name + "\"\r\n\r\n" + value
}

func file(content string) string {
	return "Content-Disposition: form-data; name=\"file\"; filename=\"x\"\r\nContent-Type: application/octet-stream\r\n\r\n" + content
}

func TestUploadsAreParsed(t *testing.T) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", "ünïcode \"quoted\".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write([]byte("{\"body\":{\"previous_response_id\":\"r\"}}\r\n\n{\"body\":{\"input\":[{\"id\":\"i\"}]}}")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.WriteField("purpose", "batch"), w.WriteField("expires_after[anchor]", "created_at"), w.Close()); err != nil {
		t.Fatal(err)
	}
	u, err := stored.ReadUpload(w.FormDataContentType(), b.Bytes())
	if err != nil || len(u.Refs) != 2 || u.Refs[0].At != "line 1: body.previous_response_id" || u.Refs[1] != (stored.Ref{ID: "i", At: "line 3: body.input[0].id", Kind: stored.Item}) {
		t.Errorf("%+v, %v", u, err)
	}
	if u.ContentType != w.FormDataContentType() {
		t.Errorf("%q was %q", u.ContentType, w.FormDataContentType())
	}
	other, err := stored.ReadUpload(form, upload(field("purpose", "user_data"), file("{\"file_id\":\"in a text\"}\x00\xff\r\n-- b\r\n--c\r\n")))
	if err != nil || other.Refs != nil {
		t.Errorf("%+v, %v", other, err)
	}
}

// TestAmbiguousFormsAreRefused: one parser would see a batch where another sees none.
func TestAmbiguousFormsAreRefused(t *testing.T) {
	whole := string(upload(field("purpose", "batch"), file("{}")))
	for about, row := range map[string]struct{ kind, body string }{
		"no form":                        {"application/json", whole},
		"no content type":                {"", whole},
		"no boundary":                    {"multipart/form-data", whole},
		"another boundary":               {"multipart/form-data; boundary=c", whole},
		"a boundary twice":               {"multipart/form-data; boundary=b; boundary=c", whole},
		"another parameter":              {"multipart/form-data; boundary=b; charset=utf-16", whole},
		"a boundary of other letters":    {"multipart/form-data; boundary=\"b\\\"\"", whole},
		"a boundary that is too long":    {"multipart/form-data; boundary=" + strings.Repeat("b", 71), strings.ReplaceAll(whole, "--b", "--"+strings.Repeat("b", 71))},
		"a boundary with a space":        {"multipart/form-data; boundary=\"b c\"", strings.ReplaceAll(whole, "--b", "--b c")},
		"an LF before the boundary":      {form, string(upload(file("x\n--b\r\n" + field("purpose", "batch"))))},
		"a NUL in a head":                {form, string(upload("X: y\x00\r\n" + field("purpose", "batch")))},
		"an encoded file":                {form, string(upload(field("purpose", "batch"), "Content-Transfer-Encoding: base64\r\n"+file("e30=")))},
		"a long purpose":                 {form, string(upload(field("purpose", strings.Repeat("a", 65)), file("{}")))},
		"nothing":                        {form, ""},
		"something before":               {form, "\r\n" + whole},
		"something behind":               {form, whole + "x"},
		"no end":                         {form, strings.TrimSuffix(whole, "--\r\n")},
		"bare line feeds":                {form, strings.ReplaceAll(whole, "\r\n", "\n")},
		"a bare line feed":               {form, strings.Replace(whole, "\r\n--b\r\nContent-Disposition: form-data; name=\"file\"", "\n--b\nContent-Disposition: form-data; name=\"file\"", 1)},
		"a boundary behind a CR":         {form, string(upload(file("x\r--b\r\n" + field("purpose", "batch"))))},
		"a boundary at a part's start":   {form, string(upload(file("--b\r\n" + field("purpose", "batch"))))},
		"white space behind a boundary":  {form, strings.Replace(whole, "\r\n--b\r\n", "\r\n--b \r\n", 1)},
		"a name twice":                   {form, string(upload(field("purpose", "user_data"), field("Purpose", "batch"), file("{}")))},
		"no name":                        {form, string(upload("Content-Disposition: form-data\r\n\r\nx"))},
		"no disposition":                 {form, string(upload("Content-Type: text/plain\r\n\r\nx"))},
		"two dispositions":               {form, string(upload("Content-Disposition: form-data; name=\"a\"\r\n" + field("purpose", "batch")))},
		"a name twice in one":            {form, string(upload(`Content-Disposition: form-data; name="a"; name="purpose"` + "\r\n\r\nbatch"))},
		"another disposition":            {form, string(upload(`Content-Disposition: attachment; name="purpose"` + "\r\n\r\nbatch"))},
		"a line that goes on":            {form, string(upload("Content-Disposition: form-data;\r\n name=\"purpose\"\r\n\r\nbatch"))},
		"a line feed in a head":          {form, string(upload("X: y\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch"))},
		"an encoded part":                {form, string(upload("Content-Transfer-Encoding: quoted-printable\r\n" + field("purpose", "=62atch")))},
		"a purpose in another charset":   {form, string(upload(field("purpose", "b\x00a\x00t\x00c\x00h\x00")))},
		"a purpose with white space":     {form, string(upload(field("purpose", " batch")))},
		"a head that is too long":        {form, string(upload("X: " + strings.Repeat("y", 9<<10) + "\r\n" + field("purpose", "batch")))},
		"a line that is no JSON":         {form, string(upload(field("purpose", "batch"), file("{}\n{")))},
		"a line that is no object":       {form, string(upload(field("purpose", "batch"), file("{}\n[]")))},
		"a line with a member twice":     {form, string(upload(field("purpose", "batch"), file(`{"body":1,"body":2}`)))},
		"a line with what should be ids": {form, string(upload(field("purpose", "batch"), file(`{"file_ids":1}`)))},
	} {
		if u, err := stored.ReadUpload(row.kind, []byte(row.body)); err == nil {
			t.Errorf("%s: %+v", about, u)
		}
	}
}

// FuzzUpload: a form that is accepted is parsed alike by the standard library.
func FuzzUpload(f *testing.F) {
	f.Add(upload(field("purpose", "batch"), file("{}\n")))
	f.Add(upload(file("x"), field("purpose", "user_data")))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := stored.ReadUpload(form, body); err != nil {
			return
		}
		r := multipart.NewReader(bytes.NewReader(body), "b")
		all, err := r.ReadForm(1 << 20)
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		for name, values := range all.Value {
			if len(values) > 1 {
				t.Errorf("%q has %s twice", body, name)
			}
		}
	})
}
