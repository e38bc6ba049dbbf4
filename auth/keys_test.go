package auth_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinnabar-hub/cinnabar/auth"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	s := makeSigners()
	const long = "0123456789abcdef0123456789abcdef"
	rsaPub, ecPub, edPub := publicPEM(t, s.rsa.Public()), publicPEM(t, s.es256.Public()), publicPEM(t, s.ed.Public())
	pkcs1 := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&s.rsa.PublicKey)}))
	for name, c := range map[string]struct {
		key, alg string
		short    bool
		refused  string // "" = accepted, else a part of the reason
		accepts  string // algorithm
	}{
		"secret, default algorithm":     {key: long, accepts: "HS256"},
		"secret, HS512":                 {key: long, alg: "HS512", accepts: "HS512"},
		"secret of 31 bytes":            {key: long[1:], refused: "31 bytes, HS256 needs at least 32"},
		"short secret allowed":          {key: "x", short: true, accepts: "HS256"},
		"empty":                         {refused: "it is empty", short: true},
		"none":                          {key: long, alg: "none", refused: "unsigned"},
		"None":                          {key: long, alg: "None", refused: "use one of HS256"},
		"unknown":                       {key: long, alg: "HS1", refused: "use one of HS256, HS384"},
		"lower case":                    {key: long, alg: "hs256", refused: "not supported"},
		"PEM with the default":          {key: rsaPub, refused: "HS256 would use the PEM text as a shared secret"},
		"PEM with HS512":                {key: ecPub, alg: "HS512", refused: "would use the PEM text"},
		"damaged PEM with HS256":        {key: "-----BEGIN PUBLIC KEY----- AAAA", refused: "would use the PEM text"},
		"RSA, RS256":                    {key: rsaPub, alg: "RS256", accepts: "RS256"},
		"RSA, PS512":                    {key: rsaPub, alg: "PS512", accepts: "PS512"},
		"RSA in PKCS #1":                {key: pkcs1, alg: "RS256", accepts: "RS256"},
		"RSA certificate":               {key: certificate(t, s), alg: "RS256", accepts: "RS256"},
		"RSA with ES256":                {key: rsaPub, alg: "ES256", refused: "an RSA key cannot verify ES256"},
		"RSA of 1024 bits":              {key: publicPEM(t, rsaOf(1024)), alg: "RS256", refused: "1024 bits, at least 2048"},
		"P-256, ES256":                  {key: ecPub, alg: "ES256", accepts: "ES256"},
		"P-384, ES384":                  {key: publicPEM(t, s.es384.Public()), alg: "ES384", accepts: "ES384"},
		"P-521, ES512":                  {key: publicPEM(t, s.es512.Public()), alg: "ES512", accepts: "ES512"},
		"P-384 with ES256":              {key: publicPEM(t, s.es384.Public()), alg: "ES256", refused: "P-384 cannot verify ES256; use ES384"},
		"P-256 with RS256":              {key: ecPub, alg: "RS256", refused: "P-256 cannot verify RS256; use ES256"},
		"Ed25519, EdDSA":                {key: edPub, alg: "EdDSA", accepts: "EdDSA"},
		"Ed25519 with ES256":            {key: edPub, alg: "ES256", refused: "use EdDSA"},
		"private key":                   {key: privatePEM(t, s.es256), alg: "ES256", refused: "this is a private key"},
		"secret where PEM is needed":    {key: long, alg: "RS256", refused: "needs a key in PEM form"},
		"PEM on one line":               {key: strings.ReplaceAll(rsaPub, "\n", " "), alg: "RS256", refused: "damaged"},
		"two keys":                      {key: rsaPub + ecPub, alg: "RS256", refused: "more than one key"},
		"another PEM type":              {key: "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", alg: "RS256", refused: "not a public key"},
		"PEM without a key":             {key: "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", alg: "RS256", refused: "holds no key"},
		"RSA of 16384 bits":             {key: publicPEM(t, rsaOf(16384)), alg: "RS256", accepts: "RS256"},
		"RSA of 16385 bits":             {key: publicPEM(t, rsaOf(16385)), alg: "RS256", refused: "16385 bits, at most 16384"},
		"JSON Web Key":                  {key: ` {"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`, refused: "the text of a JSON Web Key"},
		"JWK Set":                       {key: `{"keys":[{"kty":"oct","k":"AAAAAAAAAAAAAAAA"}]}`, alg: "HS512", refused: "the text of a JSON Web Key"},
		"another JSON object":           {key: `{"secret":"0123456789abcdef0123456789"}`, accepts: "HS256"},
		"leading text before the block": {key: "# our key\n" + ecPub, alg: "ES256", accepts: "ES256"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, err := auth.ParseKey("publisher", c.key, c.alg, c.short)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) || !strings.HasPrefix(err.Error(), "publisher key: ") {
					t.Fatalf("got %v, want a reason with %q", err, c.refused)
				}
				if c.key != "" && strings.Contains(err.Error(), strings.TrimSpace(c.key)) {
					t.Error("the message contains the key")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := k.Algorithms(); !slices.Equal(got, []string{c.accepts}) {
				t.Errorf("accepts %q, want only %s", got, c.accepts)
			}
			if warned := len(k.Warnings()) > 0; warned != c.short {
				t.Errorf("warnings %q", k.Warnings())
			}
		})
	}
}

func rsaOf(bits int) *rsa.PublicKey {
	n := new(big.Int).SetBit(new(big.Int), bits-1, 1)
	return &rsa.PublicKey{N: n.SetBit(n, 0, 1), E: 65537}
}

func certificate(t *testing.T, s signers) string {
	t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Unix(0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, s.rsa.Public(), s.rsa)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
