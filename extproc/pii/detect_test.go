package pii_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/pii"
)

var all = pii.Detectors{Types: pii.Builtin}

// found returns the values of a text, each as its type and text.
func found(t testing.TB, d pii.Detector, text string) (out []string) {
	t.Helper()
	spans, err := pii.NewScanner(d).Find(context.Background(), text)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range spans {
		out = append(out, string(s.Type)+" "+text[s.Start:s.End])
	}
	return out
}

// unmark removes the marks in credentials, which prevent scanners from reporting this file as a leak.
func unmark(s string) string { return strings.ReplaceAll(s, "¦", "") }

const (
	hexKey  = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	hexKey2 = "0x8da4ef21b864d2cc526dbdb2a120bd2874c36c9d0a1fb7f8c63d7f7a8b41de8f"
	seed    = "legal winner ¦thank year wave sausage worth useful legal winner thank yellow" // published, few different words
	phrase  = "ozone drill grab fiber curtain grace pudding thank cruise elder eight picnic"
	phrase2 = "void come effort suffer camp survey warrior heavy shoot primary clutch crush open amazing screen patrol group space point ten exist slush involve unfold"
)

// Each row is a text and the values in it.
func TestEachDetectorKnowsItsValuesAndTheirLookAlikes(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		// Addresses of mail.
		{"write to jane.doe+news@mail.example.co.uk.", "EMAIL jane.doe+news@mail.example.co.uk"},
		{"<jürgen@müller.de>, 请联系john@example.com谢谢", "EMAIL jürgen@müller.de|EMAIL john@example.com"},
		{"mailto:a_b@x-y.io?subject=hi", "EMAIL a_b@x-y.io"},
		{"git clone git@github.com:org/repo.git, logo@2x.png, @types/node@18.1.0, user@localhost, a @ b.com, @handle, x@y.c, a@b..com", ""},
		{"@app.route('/x') and m@n.dot(v)", ""},
		// Cards.
		{"card 4111 1111 1111 1111 exp 12/27", "CARD 4111 1111 1111 1111"},
		{"5500-0055-5555-5559, 378282246310005, 3782 822463 10005, 30569309025904", "CARD 5500-0055-5555-5559|CARD 378282246310005|CARD 3782 822463 10005|CARD 30569309025904"},
		{"4111 1111 1111 1112, 4111111111111112, 1234567812345670, 0.4111111111111111, id4111111111111111, order-4111111111111111-7", ""},
		{"1700000000000, 1234567890123456, 0000000000000000, 4444444444444444", ""},
		// IBANs.
		{"DE89 3704 0044 0532 0130 00 or GB82WEST12345698765432 or fr1420041010050500013m02606", "IBAN DE89 3704 0044 0532 0130 00|IBAN GB82WEST12345698765432|IBAN fr1420041010050500013m02606"},
		{"DE88 3704 0044 0532 0130 00, XX89370400440532013000, DE89370400440532013000X", ""},
		// Social security numbers.
		{"SSN 536-90-4399, ssn: 536 90 4399, Social Security Number: 536904399", "SSN 536-90-4399|SSN 536 90 4399|SSN 536904399"},
		{"000-12-3456, 666-12-3456, 912-12-3456, 536-00-4399, 536-90-0000, 536 90 4399, 536904399, part 1536-90-43991, 536-90-4399-1", ""},
		// Phone numbers.
		{"+49 30 901820, +1 (415) 555-0132, +44 20 7946 0958, +49 (0)30 901820", "PHONE +49 30 901820|PHONE +1 (415) 555-0132|PHONE +44 20 7946 0958|PHONE +49 (0)30 901820"},
		{"(415) 555-0132 or 415-555-0132 or 1-415-555-0132", "PHONE (415) 555-0132|PHONE 415-555-0132|PHONE 1-415-555-0132"},
		{"Tel.: 030 901820, Mobil 0171 2345678, 电话：010 6552 9988", "PHONE 030 901820|PHONE 0171 2345678|PHONE 010 6552 9988"},
		{"2024-01-15, 15.01.2024, 12:34:56, +0200, 1234567890, 123-456-7890, room 030 901820, 1,234,567.89, 2024-01-15 10:20:30", ""},
		{"Tel. vom 15.01.2024", ""},
		// Addresses of computers.
		{"from 203.0.113.7:8080, 2001:db8::1 and [2001:db8:85a3::8a2e:370:7334]:443", "IP 203.0.113.7|IP 2001:db8::1|IP 2001:db8:85a3::8a2e:370:7334"},
		{"127.0.0.1, 10.1.2.3, 192.168.0.1, 172.16.5.4, 0.0.0.0, 255.255.255.255, 169.254.1.1, 8.8.8.8, ::1, fe80::1, 100.64.0.1", ""},
		{"v1.22.3.44, version 5.10.20.30, Chrome/120.0.60.1, 1.22.33.44.55, 300.1.2.3, ==1.22.3.4, >= 4.3.2.1, std::vector, ab::cd, 12:34:56, 1.2.3", ""},
		// Addresses on chains.
		{"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed 0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359", "EVM_ADDRESS 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed|EVM_ADDRESS 0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359"},
		{"0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed, 0xfb6916095ca1df60bb79ce92ce3ea74c37c5d35, 0x" + hexKey, ""},
		// Postal addresses.
		{"Ship it to 123 N Main St, Apt 4B, Springfield, IL 62704-1234.", "POSTAL_ADDRESS 123 N Main St, Apt 4B, Springfield, IL 62704-1234"},
		{"742 Evergreen Ter Springfield Oregon 97477; 1230 Avenue of the Americas, New York, NY 10020", "POSTAL_ADDRESS 742 Evergreen Ter Springfield Oregon 97477|POSTAL_ADDRESS 1230 Avenue of the Americas, New York, NY 10020"},
		{"Jane Doe\n55 W 42nd Street #7\nNew York, NY 10036\nUSA", "POSTAL_ADDRESS 55 W 42nd Street #7\nNew York, NY 10036"},
		{"221B Baker Street, London NW1 6XE, and 12-14 St. John's Road, Stoke-on-Trent, Staffordshire, ST4 2AB", "POSTAL_ADDRESS 221B Baker Street, London NW1 6XE|POSTAL_ADDRESS 12-14 St. John's Road, Stoke-on-Trent, Staffordshire, ST4 2AB"},
		{"290 Bremner Blvd, Toronto, ON M5V 3L9 or 12 Smith Street, Richmond VIC 3121", "POSTAL_ADDRESS 290 Bremner Blvd, Toronto, ON M5V 3L9|POSTAL_ADDRESS 12 Smith Street, Richmond VIC 3121"},
		{"P.O. Box 1234, Austin, TX 78701; Postfach 1234, 10115 Berlin", "POSTAL_ADDRESS P.O. Box 1234, Austin, TX 78701|POSTAL_ADDRESS Postfach 1234, 10115 Berlin"},
		{"12 bis rue de l'Abbé-Grégoire, 75006 Paris. 5, Avenue Foch\nF-75116 Paris", "POSTAL_ADDRESS 12 bis rue de l'Abbé-Grégoire, 75006 Paris|POSTAL_ADDRESS 5, Avenue Foch\nF-75116 Paris"},
		{"Hauptstraße 5a, 10115 Berlin und Berliner Str. 12-14\nD-80331 München", "POSTAL_ADDRESS Hauptstraße 5a, 10115 Berlin|POSTAL_ADDRESS Berliner Str. 12-14\nD-80331 München"},
		{"Calle de Alcalá, 45, 28014 Madrid; Via Roma 10, 00184 Roma; Keizersgracht 123, 1015 CJ Amsterdam; Rue de la Loi 16, 1000 Bruxelles", "POSTAL_ADDRESS Calle de Alcalá, 45, 28014 Madrid|POSTAL_ADDRESS Via Roma 10, 00184 Roma|POSTAL_ADDRESS Keizersgracht 123, 1015 CJ Amsterdam|POSTAL_ADDRESS Rue de la Loi 16, 1000 Bruxelles"},
		{"123 Main Street, 10 Downing Street, Hauptstraße 5, 12 rue de la Paix, PO Box 7; Springfield, IL 62704, 10115 Berlin, SW1A 2AA", ""},
		{"In 2019 Wall Street, NY traders; Engineering 2024, 2025 Roadmap; Verkäufer 5, 12345 Euro; Am Tag 5, 10000 Euro; Version 12, 2019 Update; 5 Oxford Road, 12345 Items", ""},
		{"$12 Main Street, Springfield, IL 62704.55; v1.2 Main St, Springfield, IL 62704; 1234567 Main St, Springfield, IL 62704; 12 people walk the road, back home, or 12345", ""},
		{"5 court cases, TX 73301; 12 Way, OK 12345; 7 Star Drive, 64 GB; 12 Main St,, Springfield, IL 62704; 12 Main St\n\nSpringfield, IL 62704", ""},
		// In small letters.
		{"12 maple street, dayton, oh 45402; 9 n 5th ave apt 4b, new york ny 10001-2203, 3 oak dr #5\nsalem, or 97301", "POSTAL_ADDRESS 12 maple street, dayton, oh 45402|POSTAL_ADDRESS 9 n 5th ave apt 4b, new york ny 10001-2203|POSTAL_ADDRESS 3 oak dr #5\nsalem, or 97301"},
		{"14 acacia road, norwich nr2 4pq. 290 queen st, toronto, on m5v 2a1 or 5 elm road, austin, texas 78741", "POSTAL_ADDRESS 14 acacia road, norwich nr2 4pq|POSTAL_ADDRESS 290 queen st, toronto, on m5v 2a1|POSTAL_ADDRESS 5 elm road, austin, texas 78741"},
		{"in der lindenstraße 17, 50968 köln. goethestrasse 3b\n60313 frankfurt", "POSTAL_ADDRESS lindenstraße 17, 50968 köln|POSTAL_ADDRESS goethestrasse 3b\n60313 frankfurt"},
		{"12 maple street dayton oh 45402; 12 maple street, dayton or 45402; 12 street, dayton, oh 45402; 12 maple street, dayton, xx 45402; 12 maple street, dayton, oh 454021", ""},
		{"12 steps down the road, left, ok 45402; 12 maple street, in the city, oh 45402; 12 maple street, a b c d, oh 45402; 12 maple street, norwich nr2 4pqx", ""},
		{"lindenstraße 17 50968 köln; lindenstraße 17, 5096 köln; str. 17, 50968 köln; lindenstraße 17, 12000 einwohner; spielplatz 3, 12000 kinder", ""},
		// Japanese.
		{"住所は東京都千代田区丸の内1-9-1です。〒460-0008 愛知県名古屋市中区栄３−５−１２", "POSTAL_ADDRESS 東京都千代田区丸の内1-9-1|POSTAL_ADDRESS 〒460-0008 愛知県名古屋市中区栄３−５−１２"},
		{"大阪府大阪市北区梅田三丁目1番3号、604-8571\n京都府京都市中京区寺町通488番地 〒100-0005千代田区一番町5-1", "POSTAL_ADDRESS 大阪府大阪市北区梅田三丁目1番3号|POSTAL_ADDRESS 604-8571\n京都府京都市中京区寺町通488番地|POSTAL_ADDRESS 〒100-0005千代田区一番町5-1"},
		{"東京都港区で1-9-1、大阪府大阪市の人口は275万人、東京都港区3-4人、東京都の1-9-1、東京都港区の1-9-1、東京都港区芝12345-1、東京都港区芝1-9.5、東京都港区芝1-9a、港区芝1-9-1", ""},
		{"〒100-0005、〒1000005 港区芝1-9-1、〒100-00055 港区芝1-9-1、県都府道〒", ""},
		{"携帯は090-8123-4567、番号は03-3581-4321です, mobile 080-3456-7891", "PHONE 090-8123-4567|PHONE 03-3581-4321|PHONE 080-3456-7891"},
		{"room 03-3581-4321, 番号は090-12345678-1、番号は0335814321、型番は03-12-34", ""},
		// Private keys.
		{"my private key is " + hexKey, "PRIVATE_KEY " + hexKey},
		{"PRIVATE_KEY=" + hexKey2 + " pk=" + hexKey + `; {"secret": "` + hexKey + `"}`, "PRIVATE_KEY " + hexKey2 + "|PRIVATE_KEY " + hexKey + "|PRIVATE_KEY " + hexKey},
		{"私钥：" + hexKey + "; приватный ключ: " + hexKey, "PRIVATE_KEY " + hexKey + "|PRIVATE_KEY " + hexKey},
		{"tx 0x" + hexKey + ", block " + hexKey + ", sha256:" + hexKey + ", private key tx hash 0x" + hexKey + ", public key: " + hexKey, ""},
		{"private key ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80, pk=" + strings.Repeat("0", 64) + ", pk=" + strings.Repeat("f", 64), ""},
		{"5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ", "PRIVATE_KEY 5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ"},
		{"5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTK", ""},
		{"xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi", "PRIVATE_KEY xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi"},
		{"a -----BEGIN ¦EC PRIVATE KEY-----\nMHcCAQEEIFakeFakeFakeFakeFakeFakeFakeFakeFakeFakeFake\n-----END EC PRIVATE KEY----- b", "PRIVATE_KEY -----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIFakeFakeFakeFakeFakeFakeFakeFakeFakeFakeFake\n-----END EC PRIVATE KEY-----"},
		{"-----BEGIN CERTIFICATE-----\nMHcCAQEEIFakeFakeFakeFakeFakeFakeFakeFakeFakeFakeFake\n-----END CERTIFICATE-----, a file with -----BEGIN ¦PRIVATE KEY----- and -----END PRIVATE KEY-----", ""},
		// Phrases.
		{"My phrase: " + phrase + ". Keep it.", "SEED_PHRASE " + phrase},
		{"1. Ozone\n2. drill\n3. grab 4) fiber, curtain, grace pudding thank cruise elder eight picnic", "SEED_PHRASE Ozone\n2. drill\n3. grab 4) fiber, curtain, grace pudding thank cruise elder eight picnic"},
		{"It is " + phrase2, "SEED_PHRASE " + phrase2},
		{"ozone drill grab fiber curtain grace pudding thank cruise elder eight zoo", ""},
		{seed + ", " + strings.Repeat("test ", 11) + "junk, " + strings.Repeat("abandon ", 11) + "about", ""},
		// Secrets of services.
		{"AWS AKIA¦Z7QX2M4N6P3R5T7V, GH ghp¦_a8Kd92mXz0Qw7Lr5Ty3Bn6Vc1Pf4Gh2Jk9sE and sk-ant¦-api03-Zx8Kq2mN5vB7cL1pR4tY6uW9", "SECRET AKIAZ7QX2M4N6P3R5T7V|SECRET ghp_a8Kd92mXz0Qw7Lr5Ty3Bn6Vc1Pf4Gh2Jk9sE|SECRET sk-ant-api03-Zx8Kq2mN5vB7cL1pR4tY6uW9"},
		{"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U", "SECRET eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"},
		{`client_secret: "q8Zr2Lm5Xk9Vt3Bn7Wc1", DB_PASSWORD=h7Kq2mZx9vLp4Rt6`, "SECRET q8Zr2Lm5Xk9Vt3Bn7Wc1|SECRET h7Kq2mZx9vLp4Rt6"},
		{"postgres://app:s3cr3t-pw@db.internal/x and https://example.com/a:b@c", "PASSWORD s3cr3t-pw"},
		{"sk-your-api-key-goes-here-please, AKIAIOSFODNN7EXAMPLE, sk-xxxxxxxxxxxxxxxxxxxxxxxx, token = getToken(), task-force-of-the-whole-company, password: required, eyJub3QiOiJqd3QifQ", ""},
		{"token: 550e8400-e29b-41d4-a716-446655440000-is-an-id, commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "SECRET 550e8400-e29b-41d4-a716-446655440000-is-an-id"},
	} {
		text := unmark(row.text)
		if got := strings.Join(found(t, all, text), "|"); got != unmark(row.want) {
			t.Errorf("%q:\n got %s\nwant %s", text, got, unmark(row.want))
		}
	}
}

func TestOnlyTheChosenTypesAreLookedFor(t *testing.T) {
	text := "a@b.com 4111 1111 1111 1111 +49 30 901820 203.0.113.7 0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359 pk=" + hexKey + " " + phrase
	for _, typ := range pii.Builtin {
		for _, got := range found(t, pii.Detectors{Types: []pii.Type{typ}}, text) {
			if !strings.HasPrefix(got, string(typ)+" ") {
				t.Errorf("%s finds %s", typ, got)
			}
		}
	}
	if got := found(t, pii.Detectors{}, text); got != nil {
		t.Errorf("without types it finds %v", got)
	}
	if slices.Contains(pii.Default, pii.EVMAddress) {
		t.Error("addresses on chains are masked by default")
	}
}

func TestNationalPhoneNumbersOfConfiguredRegions(t *testing.T) {
	text := "Büro 030 901820 in Raum 030 12"
	if got := found(t, all, text); got != nil {
		t.Errorf("without a region it finds %v", got)
	}
	if got := fmt.Sprint(found(t, pii.Detectors{Types: pii.Builtin, Regions: []string{"DE"}}, text)); got != "[PHONE 030 901820]" {
		t.Errorf("in Germany it finds %s", got)
	}
}

func TestOperatorsPatterns(t *testing.T) {
	p, err := pii.NewPatterns([]pii.Pattern{{Name: "employee", Regexp: `\bEMP-\d{6}\b`, Examples: []string{"EMP-123456"}, Not: []string{"EMP-12"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(found(t, p, "ask EMP-004711 or EMP-1")); got != "[EMPLOYEE EMP-004711]" {
		t.Errorf("found %s", got)
	}
	for _, row := range []struct {
		p    pii.Pattern
		want string
	}{
		{pii.Pattern{Name: "x", Regexp: `(`}, "missing closing"},
		{pii.Pattern{Name: "x", Regexp: `a*`}, "empty text"},
		{pii.Pattern{Name: "x", Regexp: `(?=a)`}, "invalid"},
		{pii.Pattern{Name: "x", Regexp: `((a{100}){100}){100}`}, "invalid repeat"},
		{pii.Pattern{Name: "x", Regexp: `(ab|cd|ef|gh|ij){1000}`}, "instructions"},
		{pii.Pattern{Name: "x", Regexp: strings.Repeat("a", 2000)}, "2000 bytes"},
		{pii.Pattern{Name: "email", Regexp: `a`}, "built-in"},
		{pii.Pattern{Name: "literal", Regexp: `a`}, "no name"},
		{pii.Pattern{Name: "a-b", Regexp: `a`}, "no name"},
		{pii.Pattern{Name: "x", Regexp: `EMP-\d`, Examples: []string{"EMP-12"}}, "the whole of its example"},
		{pii.Pattern{Name: "x", Regexp: `EMP-\d`, Not: []string{"an EMP-1"}}, "must not"},
	} {
		if _, err := pii.NewPatterns([]pii.Pattern{row.p}); err == nil || !strings.Contains(err.Error(), row.want) || !strings.HasPrefix(err.Error(), "pattern "+row.p.Name) {
			t.Errorf("%q: %v, want %s", row.p.Regexp, err, row.want)
		}
	}
	if _, err := pii.NewPatterns(make([]pii.Pattern, pii.MaxPatterns+1)); err == nil {
		t.Error("any number of patterns is taken")
	}
}

// failing is a detector that fails, like an unavailable model.
type failing struct{}

func (failing) Find(context.Context, string, []pii.Span) ([]pii.Span, error) {
	return nil, errors.New("no model")
}

func TestADetectorThatFailsLeavesNothingKnown(t *testing.T) {
	if _, err := pii.NewScanner(all, failing{}).Find(t.Context(), "a@b.com"); err == nil {
		t.Error("no error")
	}
}

func TestOverlapsGoToTheHigherPriorityThenTheLongerSpan(t *testing.T) {
	for _, row := range []struct{ in, want []pii.Span }{
		{[]pii.Span{{0, 5, pii.Phone, 1}, {3, 9, pii.Card, 1}}, []pii.Span{{3, 9, pii.Card, 1}}},
		{[]pii.Span{{0, 5, "X", 1}, {3, 9, "Y", 1}}, []pii.Span{{3, 9, "Y", 1}}},
		{[]pii.Span{{0, 5, "X", 1}, {5, 9, "Y", 1}}, []pii.Span{{0, 5, "X", 1}, {5, 9, "Y", 1}}},
		{[]pii.Span{{-1, 5, "X", 1}, {5, 5, "Y", 1}, {8, 11, "Y", 1}, {2, 3, "", 1}}, nil},
		{[]pii.Span{{4, 6, pii.IP, 1}, {0, 4, pii.Email, 1}, {3, 5, pii.Phone, 1}}, []pii.Span{{0, 4, pii.Email, 1}, {4, 6, pii.IP, 1}}},
	} {
		if got := pii.Resolve(row.in, 10); !slices.Equal(got, row.want) {
			t.Errorf("%v becomes %v, want %v", row.in, got, row.want)
		}
	}
}

func TestTheMemoGivesWhatTheScannerFinds(t *testing.T) {
	m := pii.NewMemo(pii.NewScanner(all))
	for range 2 {
		got, err := m.Find(t.Context(), "write to a@b.com")
		if err != nil || len(got) != 1 || got[0].Start != 9 {
			t.Errorf("%v, %v", got, err)
		}
	}
	if _, err := pii.NewMemo(pii.NewScanner(failing{})).Find(t.Context(), "write to a@b.com"); err == nil {
		t.Error("no error")
	}
}
