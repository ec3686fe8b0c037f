package formdata_test

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"strings"
	"testing"

	"bardo.money/gateway/internal/formdata"
)

// written is a form as the standard library writes it.
func written(t *testing.T) (contentType string, body []byte) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	file, err := w.CreateFormFile("file", "a.wav")
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Write([]byte("RIFF\r\n\x00--"))
	if err := errors.Join(err, w.WriteField("model", "whisper-1"), w.WriteField("image[]", "1"), w.WriteField("image[]", "2"), w.Close()); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), b.Bytes()
}

// fields are the values that the standard library reads, in their order.
func fields(t *testing.T, contentType string, body []byte) (all []string) {
	t.Helper()
	r := multipart.NewReader(bytes.NewReader(body), strings.TrimPrefix(contentType, "multipart/form-data; boundary="))
	for {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p.FormName()+"="+string(content))
	}
}

func TestAFormIsReadAndChangedInOnePlace(t *testing.T) {
	contentType, body := written(t)
	f, err := formdata.Parse(contentType, body)
	if err != nil || f.ContentType != contentType || len(f.Parts) != 4 || f.Parts[0].Filename != "a.wav" || f.Once() != nil {
		t.Fatalf("%+v, %v", f, err)
	}
	if f.Find("none") != nil {
		t.Error("a part was found that is not there")
	}
	const file = "file=RIFF\r\n\x00--"
	for name, row := range map[string]struct {
		body []byte
		want string
	}{
		"as it came": {body, file + "|model=whisper-1|image[]=1|image[]=2"},
		"replaced":   {f.Replace(f.Find("model"), "large"), file + "|model=large|image[]=1|image[]=2"},
		"added":      {f.Add("n", "3"), "n=3|" + file + "|model=whisper-1|image[]=1|image[]=2"},
	} {
		if got := strings.Join(fields(t, contentType, row.body), "|"); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
		if _, err := formdata.Parse(contentType, row.body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAValueTwiceIsNamed(t *testing.T) {
	f, err := formdata.Parse("multipart/form-data; boundary=b",
		[]byte("--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\na\r\n--b\r\nContent-Disposition: form-data; name=\"Model\"\r\n\r\nb\r\n--b--"))
	if err != nil || f.Once() == nil {
		t.Errorf("%v", err)
	}
}
