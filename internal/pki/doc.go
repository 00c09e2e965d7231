// Package pki manages the certificates and tokens of a cluster: how they are created, stored,
// renewed and verified. It uses the standard library's cryptography only.
//
// # Identities
//
// A certificate has one [Identity], in its only URI SAN:
//
//	spiffe://<cluster>/node/<node id>      a node
//	spiffe://<cluster>/client/<name>       a client
//
// Nothing else in a certificate counts: not the subject, not the address. So a node may move, and
// taking over a DNS name gains nothing. With the operator's own CA ([OpenFiles]) two more forms are
// valid: a SPIFFE ID of another trust domain is a client with that ID as its name, and a
// certificate without a URI SAN is identified by its DNS SANs: it is the node whose ID is among
// them, or the client named by the first one. With such a CA, DNS SANs that equal node IDs must be
// given to nodes only.
//
// # Threats and measures
//
//	threat                                        measure
//	network attacker reads or modifies traffic    TLS 1.3 only; no older version, no renegotiation
//	a party without certificate acts as a node    the peer port accepts only node certificates of this cluster's CA
//	a client's certificate used as a node's       the URI has the kind; client certificates are for clientAuth only,
//	                                              so that no client can act as a server
//	one node impersonates another                 [Store.IsNode] compares the name that a peer claims with its certificate
//	traffic sent to the wrong machine             [Want]: the dialer says which node must answer; addresses prove nothing
//	a node certificate that signs others          never a CA; the CA has path length 0, so no CA can be below it
//	a request for more than is allowed            only the key of a request counts; names come from what the cluster knows
//	                                              about the requester; weak and oversized keys are rejected, the latter
//	                                              before any computation with them
//	a stolen key of a node or client              certificates are short-lived; NotAfter is within the CA's
//	a stolen key of the CA                        rotation of the CA, without interruption
//	a session that outlives its CA                no tickets, no resumption: each handshake uses the current bundle.
//	                                              Owners of open connections check them again
//	                                              ([Store.CheckCaller], [Store.CheckServer])
//	a joining node is led to a false cluster      the join token has the CA's hash; [CheckPinned]
//	a false node joins                            the token's secret: 256 random bits, stored as a hash
//	guessing a secret by timing                   only hashes are compared, in constant time
//	secrets in logs, errors, dumps                [Secret] and [KeyPEM] format as "[secret]" with every verb;
//	                                              errors of parsers contain no part of a token
//	a log line forged in a certificate            foreign text is quoted and cut to 128 bytes
//	a remote party sends megabytes                every size is bounded before parsing
//	keys that others on the machine read          directory 0700, files 0600, from their creation; [Store.Warnings]
//	a crash between certificate and key           the new key is on disk before its certificate, see dir.go
//	clocks that differ                            certificates begin five minutes in the past ([Skew])
//
// Limitation: single certificates cannot be revoked. Until it expires, a certificate is disabled
// only by rejecting its name at a higher level (a removed node is not a member), or by rotating the
// CA.
//
// # Stores
//
// A [Store] holds a certificate, its key and the trust bundle: in a directory that the cluster
// writes ([OpenStore]), in files of the operator ([OpenFiles]), or in memory ([NewStore]). Its
// state is one immutable value behind an atomic pointer. The TLS configurations that it makes never
// change; their callbacks load that pointer in each handshake. So renewal and rotation need no
// restart, and a handshake sees a consistent certificate and bundle.
//
// The callbacks verify certificates instead of crypto/tls, for three reasons: its pools cannot be
// replaced in a configuration that has been cloned; it would compare certificates with host names;
// and its errors do not help the person who has to fix the problem. Every rejection is an [Error]:
// a [Why] for metrics and a sentence for the log. [Explain] finds such sentences for the errors of
// crypto/tls.
//
// # Rotation
//
// A CA is replaced in three steps without a failed handshake: all nodes trust the next CA too; it
// signs, and all nodes get certificates from it; the old one is no longer trusted. A step is taken
// when the [Status] of every node shows that the previous one is complete, by rotateAuthority in
// cluster/membership/authority.go.
//
// A join token names the CA that signs. A token made before another CA started to sign is rejected
// with an explanation. Tokens are short-lived; make new ones.
package pki
