package auth

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// isPEM reports whether s looks like PEM, well-formed or not.
func isPEM(s string) bool { return strings.Contains(s, "-----BEGIN ") }

// onePEM returns the only block of s.
func onePEM(s string) (*pem.Block, error) {
	block, rest := pem.Decode([]byte(s))
	if block == nil {
		if isPEM(s) {
			return nil, errors.New("the PEM text is damaged: its lines must be kept, ending with the END line")
		}
		return nil, errors.New("this algorithm needs a key in PEM form (-----BEGIN …), not a secret")
	}
	if block.Type == "EC PARAMETERS" { // openssl ecparam -genkey writes these before the private key
		return onePEM(string(rest))
	}
	if next, _ := pem.Decode(rest); next != nil {
		return nil, errors.New("the PEM text holds more than one key; give one, or use a JWK Set")
	}
	return block, nil
}

// parsePublicPEM reads a public key, or the one of a certificate (whose dates and issuer are not looked at).
func parsePublicPEM(s string) (crypto.PublicKey, error) {
	block, err := onePEM(s)
	if err != nil {
		return nil, err
	}
	switch block.Type {
	case "PUBLIC KEY":
		pub, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, errors.New("the PEM block PUBLIC KEY holds no key that can be read")
		}
		return pub, nil
	case "RSA PUBLIC KEY":
		pub, err := x509.ParsePKCS1PublicKey(block.Bytes)
		if err != nil {
			return nil, errors.New("the PEM block RSA PUBLIC KEY holds no key that can be read")
		}
		return pub, nil
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("the PEM block CERTIFICATE cannot be read")
		}
		return cert.PublicKey, nil
	}
	if strings.HasSuffix(block.Type, "PRIVATE KEY") {
		return nil, errors.New("this is a private key, which a hub must not hold; give the public one " +
			"(`openssl pkey -in private.pem -pubout`)")
	}
	return nil, fmt.Errorf("a PEM block of type %q is not a public key", block.Type)
}

// parsePrivatePEM reads the private key that Mint signs with.
func parsePrivatePEM(s string) (crypto.Signer, error) {
	block, err := onePEM(s)
	if err != nil {
		return nil, err
	}
	var key any
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "ENCRYPTED PRIVATE KEY":
		return nil, errors.New("the private key is encrypted; decrypt it first (`openssl pkey -in key.pem -out plain.pem`)")
	case "PUBLIC KEY", "RSA PUBLIC KEY", "CERTIFICATE":
		return nil, errors.New("this is a public key; tokens are signed with the private one")
	default:
		return nil, fmt.Errorf("a PEM block of type %q is not a private key", block.Type)
	}
	if err != nil || block.Headers["DEK-Info"] != "" {
		return nil, fmt.Errorf("the PEM block %s holds no key that can be read", block.Type)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("keys of type %T cannot sign tokens", key)
	}
	return signer, nil
}
