// Package server implements the commands that run nodes: serve, dev, init and restore. It combines
// packages cluster, api and config.
package server
