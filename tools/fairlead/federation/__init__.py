"""Carries out decisions on clusters: the objects by which Karmada and Argo CD do it, and Fairlead's
own way, which applies the manifests in each member cluster."""
