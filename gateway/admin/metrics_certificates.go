package admin

// certificateMetrics are the families of a kind of TLS port, whose names begin
// with prefix. A plaintext port has no series.
func certificateMetrics[T any](prefix string, of func(T) Certificates) []metric[T] {
	only := func(read func(Certificates) float64) func(T, sink) {
		return func(subject T, to sink) {
			if c := of(subject); c != nil {
				to.value(read(c))
			}
		}
	}
	return []metric[T]{
		{family{prefix + "_tls_certificate_expiry_timestamp_seconds", gauge, "When the first certificate of the port expires; only with TLS.", nil},
			only(func(c Certificates) float64 { return float64(c.NotAfter().Unix()) })},
		{family{prefix + "_tls_certificate_up_to_date", gauge, "0 while changed certificate files cannot be used and the old certificate stays; only with TLS.", nil},
			only(func(c Certificates) float64 { return flag(c.UpToDate()) })},
	}
}

var (
	listenerCertificateMetrics = certificateMetrics("flotilla", func(l listenerSubject) Certificates { return l.Certificates })
	apiCertificateMetrics      = certificateMetrics("flotilla_chain_api", func(l listenerSubject) Certificates { return l.ChainAPICertificates })
	evmCertificateMetrics      = certificateMetrics("flotilla_evm", func(l evmSubject) Certificates { return l.Certificates })
)
