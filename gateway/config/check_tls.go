package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

func checkTLS(d *decoder, target any) {
	t := target.(*tlsDraft)
	seen := map[string]bool{}
	for _, entry := range t.entries {
		for _, name := range entry.ServerNames {
			if seen[name] {
				d.complain(entry, "server_names", fmt.Sprintf("has %s, which is listed before", quote(name)), "each name may be given once")
			}
			seen[name] = true
		}
		t.SNI = append(t.SNI, *entry)
	}
	checkPair(d, t, t.CertFile, t.KeyFile)
}

func checkSNI(d *decoder, target any) {
	s := target.(*SNI)
	if len(s.ServerNames) == 0 && d.given(s, "server_names") && !d.broken(s, "server_names") {
		d.complain(s, "server_names", "is empty", `at least one host name or *.domain is expected`)
	}
	for i, name := range s.ServerNames {
		s.ServerNames[i] = strings.ToLower(strings.TrimSpace(name))
		if !isServerName(s.ServerNames[i]) {
			d.complain(s, "server_names", fmt.Sprintf("has %s, which is no host name", quote(name)),
				"a host name of letters, digits and -, or *.domain with a domain of two labels or more, is expected")
		}
	}
	checkPair(d, s, s.CertFile, s.KeyFile)
}

// isServerName checks a lower-case name (spec "config" 6, name syntax).
func isServerName(name string) bool {
	domain, star := strings.CutPrefix(name, "*.")
	for _, c := range []byte(domain) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return domain != "" && domain[0] != '.' && domain[len(domain)-1] != '.' && !strings.Contains(domain, "..") &&
		(!star || strings.Contains(domain, "."))
}

// checkPair loads a certificate with its key, and says which file is at fault.
func checkPair(d *decoder, target any, certFile, keyFile string) {
	if certFile == "" || keyFile == "" {
		// Complained about already.
		return
	}
	certPEM, certErr := readText(certFile)
	if certErr == nil {
		certErr = checkCertificate(certFile, certPEM)
	}
	if certErr != nil {
		d.complain(target, "cert_file", "cannot be used: "+certErr.Error(), "a PEM file with the certificate first is expected")
	}
	keyPEM, keyErr := readText(keyFile)
	if keyErr == nil {
		keyErr = checkKey(keyFile, keyPEM)
	}
	if keyErr != nil {
		d.complain(target, "key_file", "cannot be used: "+keyErr.Error(), "a PEM file with a private key without a passphrase is expected")
	}
	if certErr != nil || keyErr != nil {
		return
	}
	if _, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM)); err != nil {
		d.complain(target, "key_file", fmt.Sprintf("cannot be used: %s does not go with the certificate in %s: %v", keyFile, certFile, err),
			"the private key of the first certificate is expected")
	}
}

func checkCertificate(path, text string) error {
	block := findBlock(text, func(kind string) bool { return kind == "CERTIFICATE" })
	if block == nil {
		return fmt.Errorf("%s holds no PEM certificate", path)
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return fmt.Errorf("the certificate in %s is damaged: %w", path, err)
	}
	return nil
}

func checkKey(path, text string) error {
	block := findBlock(text, func(kind string) bool { return strings.HasSuffix(kind, "PRIVATE KEY") })
	switch {
	case block == nil:
		return fmt.Errorf("%s holds no PEM private key", path)
	case block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
		return errors.New(path + " holds an encrypted private key")
	}
	return nil
}

func findBlock(text string, wanted func(kind string) bool) *pem.Block {
	rest := []byte(text)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || wanted(block.Type) {
			return block
		}
	}
}
